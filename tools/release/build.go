package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// toolchain is the compiler of releases. With another one, the bytes differ.
const toolchain = "go1.26.8"

// fips is the version of Go's cryptographic module in programs for FIPS 140-3.
const fips = "v1.0.0"

// A target is a system that a program is built for.
type target struct {
	os, arch string
	// fips reports whether the program has a validated version of Go's cryptographic module.
	fips bool
}

var targets = []target{
	{"linux", "amd64", false},
	{"linux", "arm64", false},
	{"darwin", "amd64", false},
	{"darwin", "arm64", false},
	{"windows", "amd64", false},
	{"windows", "arm64", false},
	{"linux", "amd64", true},
	{"linux", "arm64", true},
}

func (t target) String() string {
	if t.fips {
		return t.os + "_" + t.arch + "_fips"
	}
	return t.os + "_" + t.arch
}

// program returns the path of the program for a target.
func (r *release) program(t target) string {
	name := "keywright"
	if t.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.work, "programs", t.String(), name)
}

// build builds the program for all targets, and the man pages and completion.
func (r *release) build(ctx context.Context) error {
	for _, t := range targets {
		if err := r.install(ctx, t); err != nil {
			return err
		}
	}
	return r.describe(ctx)
}

// install builds the program as `go install` by version does, so that the program knows its version, and is the one that users of
// `go install` get.
func (r *release) install(ctx context.Context, t target) error {
	env, err := r.environment(ctx)
	if err != nil {
		return err
	}
	env = append(env, "GOOS="+t.os, "GOARCH="+t.arch)
	if t.fips {
		env = append(env, "GOFIPS140="+fips)
	}
	program := topPath + "/server/cmd/keywright@" + r.version
	if _, err := command(ctx, r.work, env, nil, "go", "install", "-trimpath", "-ldflags=-s", "-buildvcs=false", program); err != nil {
		return err
	}
	bin := filepath.Join(r.work, "go", "bin") // with a directory for each target but that of this machine
	if host, err := command(ctx, r.work, env, nil, "go", "env", "GOHOSTOS", "GOHOSTARCH"); err != nil {
		return err
	} else if host != t.os+"\n"+t.arch {
		bin = filepath.Join(bin, t.os+"_"+t.arch)
	}
	to := r.program(t)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Rename(filepath.Join(bin, filepath.Base(to)), to)
}

// environment returns the variables on which the bytes of a program depend, and those by which the go command finds both modules. Other
// modules come from the machine's cache or its GOPROXY.
func (r *release) environment(ctx context.Context) ([]string, error) {
	cache, err := command(ctx, r.work, nil, nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	modules, proxy, _ := strings.Cut(cache, "\n")
	path := filepath.Join(r.work, "go")
	return []string{
		"GOPATH=" + path, "GOMODCACHE=" + filepath.Join(path, "pkg", "mod"), "GOBIN=", "GOFLAGS=-modcacherw", "GOWORK=off",
		fmt.Sprintf("GOPROXY=file://%s,file://%s,%s", filepath.Join(r.dir, "proxy"), filepath.Join(modules, "cache", "download"), proxy),
		"GONOSUMDB=" + topPath, "GONOPROXY=none", "GOTOOLCHAIN=" + toolchain,
		"CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=",
	}, nil
}

// describe runs the program of this machine for its man pages and the files of completion.
func (r *release) describe(ctx context.Context) error {
	program := r.program(target{os: runtime.GOOS, arch: runtime.GOARCH})
	man := filepath.Join(r.work, "man")
	completion := filepath.Join(r.work, "completion")
	if err := errors.Join(os.Mkdir(man, 0o755), os.Mkdir(completion, 0o755)); err != nil {
		return err
	}
	if _, err := command(ctx, r.work, nil, nil, program, "man", "--date", r.date.Format(time.DateOnly), man); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "keywright.bash", "zsh": "_keywright", "fish": "keywright.fish", "powershell": "keywright.ps1"} {
		script, err := output(ctx, r.work, nil, nil, program, "completion", shell)
		if err := write(filepath.Join(completion, name), script, err); err != nil {
			return err
		}
	}
	return nil
}
