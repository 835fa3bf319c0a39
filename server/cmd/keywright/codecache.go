package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/keywright/keywright/host"
)

// codeCacheVariable is the environment variable with the directory for compiled plugins, or off.
const codeCacheVariable = "KEYWRIGHT_CODE_CACHE"

// codeCache returns the directory for the compiled code of plugins, or "". Unless the environment names one, that is a directory in
// the user's cache, if the user has one that nobody else can write to. It is only there to save time, so what is wrong with it is no
// error.
func codeCache(ctx context.Context) string {
	switch dir := os.Getenv(codeCacheVariable); dir {
	case "":
	case "off":
		return ""
	default:
		return dir // the host checks it
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(cache, "keywright", "code")
	probe, err := host.New(ctx, host.Config{BuiltIns: []host.Plugin{}, CodeCache: dir})
	if err != nil || probe.Close(ctx) != nil {
		return ""
	}
	return dir
}
