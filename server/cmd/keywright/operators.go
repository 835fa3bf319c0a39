package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/internal/login"
)

// operatorFlags holds the flags for the listener of operators.
type operatorFlags struct {
	admin            string
	tokenFile, claim string
	metricsTokenFile string
}

// add adds the flags, with --admin at a port of this machine.
func (f *operatorFlags) add(c *cobra.Command, address string) {
	c.Flags().StringVar(&f.admin, "admin", address, "the `ADDR` for operators, host:port; one that other machines reach needs a login")
	c.Flags().StringVar(&f.tokenFile, "admin-token-file", "", "operators log in with the token in a `FILE`")
	c.Flags().StringVar(&f.metricsTokenFile, "metrics-token-file", "", "a `FILE` with a token that is good for /metrics alone")
}

// addClaim adds the flag of a server whose callers have sessions.
func (f *operatorFlags) addClaim(c *cobra.Command) {
	c.Flags().StringVar(&f.claim, "admin-claim", "", "operators are those whose session of gateway.user has a claim, `CLAIM=VALUE`, such as role=operator")
}

// login returns the login of operators. It returns an error for flags that cannot be combined.
func (f *operatorFlags) login(c *cobra.Command) (login.Config, error) {
	config := login.Config{TokenFile: f.tokenFile, MetricsTokenFile: f.metricsTokenFile}
	var ok bool
	config.Claim, config.Value, ok = strings.Cut(f.claim, "=")
	switch {
	case f.claim != "" && (!ok || config.Claim == "" || config.Value == ""):
		return config, misuse(c, "--admin-claim wants CLAIM=VALUE, such as role=operator, not %q", f.claim)
	case f.metricsTokenFile != "" && f.tokenFile == "" && f.claim == "":
		return config, misuse(c, "--metrics-token-file is good for /metrics alone: give --admin-token-file for the rest")
	}
	return config, nil
}
