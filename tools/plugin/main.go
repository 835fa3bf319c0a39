// Command plugin builds the plugins of this repository, and checks that the committed modules match their sources. Run it at
// the top of the repository, where `make tinygo` installs the compiler.
//
// Command plugin writes a module only if a host would load it. With -guest, it builds WebAssembly modules that are not
// plugins, and writes them without that check.
//
//	go run ./tools/plugin build [-guest] DIR...
//	go run ./tools/plugin check [-guest] DIR...
//
// Command plugin also builds TinyGo in .build, and prints the Debian packages that this needs.
//
//	go run ./tools/plugin packages
//	go run ./tools/plugin tinygo
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/pluginbuild"
)

const (
	cache = ".build"
	usage = "usage: plugin build [-guest] DIR... | plugin check [-guest] DIR... | plugin packages|tinygo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	verb, dirs := args[0], args[1:]
	guest := len(dirs) > 0 && dirs[0] == "-guest"
	if guest {
		dirs = dirs[1:]
	}
	if (len(dirs) == 0) != slices.Contains([]string{"packages", "tinygo"}, verb) {
		return errors.New(usage)
	}
	switch verb {
	case "packages":
		fmt.Println(strings.Join(pluginbuild.Packages(ctx), " "))
		return nil
	case "tinygo":
		return pluginbuild.Install(ctx, cache, func() { fmt.Println("building TinyGo", pluginbuild.Pinned+", once") })
	}
	compiler, err := pluginbuild.FindCompiler(ctx, cache)
	if err != nil {
		return err
	}
	if compiler.Guest = guest; !guest {
		compiler.Accept = accept
	}
	switch verb {
	case "build":
		return pluginbuild.Each(ctx, dirs, compiler.Build)
	case "check":
		return pluginbuild.Each(ctx, dirs, compiler.Check)
	default:
		return errors.New(usage)
	}
}

// accept prints the size of a module, loads it as a host does, and returns the fields whose values the plugin gets sealed.
func accept(ctx context.Context, name string, wasm []byte) (sealed []string, err error) {
	fmt.Printf("%s: %.1f kB\n", name, float64(len(wasm))/1000)
	info, err := host.Inspect(ctx, host.Plugin{Name: name, Wasm: wasm}, host.Limits{})
	return info.SealedFields(), err
}
