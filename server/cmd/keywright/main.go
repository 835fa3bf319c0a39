// Command keywright authenticates requests to external APIs, from the command line and as a gateway, and serves content.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // root certificates for a system without any, such as an image of the program alone
)

func main() {
	log.SetOutput(io.Discard)          // net/http logs what servers send, which may contain a credential
	cobra.EnableCommandSorting = false // the commands have an order
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends the command, the second the process
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}

func versionCommand(a *app) *cobra.Command {
	return command("version", nil, func(*cobra.Command, []string) error {
		a.out.Printf("%s", version())
		return nil
	})
}

// version returns the version that the go command recorded in this binary: in a checkout, the commit.
func version() string {
	return fmt.Sprintf("keywright %s, %s, %s/%s\n", moduleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// userAgent returns the User-Agent of requests. A version in parentheses would be a comment there.
func userAgent() string { return "keywright/" + strings.Trim(moduleVersion(), "()") }
