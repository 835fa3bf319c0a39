//go:build sqlite

// Command server is ORY Hydra with SQLite, which needs a build tag.
package main

import "github.com/ory/hydra/v2/cmd"

func main() { cmd.Execute() }
