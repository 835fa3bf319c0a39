// Command keywright authenticates requests to external APIs, from the command line and as a gateway, and serves content.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
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
