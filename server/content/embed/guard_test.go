package embed_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content/embed"
)

// threats.md 51: a provider with an internal endpoint, by address or by name, is not asked. The URL stays.
func TestPrivateEndpoints(t *testing.T) {
	transport := testworld.Must(host.Egress{}.Transport())(t)
	defer transport.CloseIdleConnections()
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	var dialled atomic.Int64
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			_ = connection.Close()
		}
	}()
	port := netip.MustParseAddrPort(listener.Addr().String()).Port()
	for _, inside := range []string{"127.0.0.1", "localhost", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "0.0.0.0"} {
		t.Run(inside, func(t *testing.T) {
			var log bytes.Buffer
			list := fmt.Sprintf(`[{"provider_name":"Inside","endpoints":[{"url":"https://%s:%d/oembed","schemes":["https://tu.example.net/*"]}]}]`, inside, port)
			r := testworld.Must(embed.New(embed.Config{Transport: transport, Providers: []byte(list), Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
			in := "<p>before</p><p>https://tu.example.net/secret-title</p><p>after</p>"
			if got := r.Resolve(t.Context(), in); got != in {
				t.Errorf("it became %s", got)
			}
			if !strings.Contains(log.String(), "address; it is dialled only if the operator allows it (egress.allow)") || !strings.Contains(log.String(), "provider=Inside") {
				t.Errorf("the log does not say why: %s", log.String())
			}
			if strings.Contains(log.String(), "secret-title") {
				t.Errorf("the log has what is in the document: %s", log.String())
			}
		})
	}
	if dialled.Load() != 0 {
		t.Errorf("%d connections were made", dialled.Load())
	}
}
