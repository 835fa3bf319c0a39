package postgrestest

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// Dump returns what pg_dump writes about a database, and behind it the bytes that it writes in hex: hex hides from a search how
// they are encoded.
func Dump(ctx context.Context, address string) (string, error) {
	pgDump, err := program("pg_dump")
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, pgDump, "--dbname", address)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("pg_dump: %w", err)
	}
	var all strings.Builder
	all.Write(text)
	for _, in := range inHex.FindAllSubmatch(text, -1) {
		value, err := hex.DecodeString(string(in[1]))
		if err != nil {
			return "", fmt.Errorf("pg_dump: %w", err)
		}
		all.WriteByte('\n')
		all.Write(value)
	}
	return all.String(), nil
}

// inHex is bytes in a dump.
var inHex = regexp.MustCompile(`\\\\x((?:[0-9a-f]{2})+)`)
