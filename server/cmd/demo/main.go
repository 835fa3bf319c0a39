// Command demo runs "keywright demo". It compiles faster than the command keywright, because it links no database.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/keywright/keywright/server/internal/demo/tour"
	"github.com/keywright/keywright/server/internal/terminal"
)

func main() {
	log.SetOutput(io.Discard) // net/http logs what servers send, which may contain a credential
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	report, err := tour.Run(ctx)
	stop()
	if err == nil {
		out := terminal.NewPrinter(os.Stdout, os.Getenv)
		report.Print(out)
		err = out.Err()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
	if err != nil || !report.OK {
		os.Exit(1)
	}
}
