package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/keywright/keywright/gateway"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/httpserver"
)

// gatewayRows are about what the gateway costs a caller, over loopback: client, proxy and API share the machine.
func gatewayRows() []row {
	const against = "httputil.ReverseProxy without authentication, same API"
	return []row{
		{
			work: "gateway, api_key, 16 clients: time for a request at full load", against: against, unit: nanoseconds, goal: 1 / 0.9,
			measure: func(ctx context.Context, s session) (result, error) {
				return throughGateway(ctx, s, load.each)
			},
		},
		{
			work: "gateway, api_key, 16 clients: p99", against: against, unit: nanoseconds, goal: 1.2,
			measure: func(ctx context.Context, s session) (result, error) {
				return throughGateway(ctx, s, load.p99)
			},
		},
	}
}

func throughGateway(ctx context.Context, s session, figure func(load) float64) (result, error) {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	api, err := serve(ctx, &all, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"sun":true,"wind":"north","temperature":12.5}`)
	}))
	if err != nil {
		return result{}, err
	}
	backend, err := url.Parse(api)
	if err != nil {
		return result{}, err
	}
	peer, err := serve(ctx, &all, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(backend) },
		Transport: &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 64},
	})
	if err != nil {
		return result{}, err
	}
	ours, err := serveGateway(ctx, &all, api)
	if err != nil {
		return result{}, err
	}
	return s.byTurns(ctx, loadClients, [2]target{always(ours + "/connectors/weather"), always(peer + "/")}, figure)
}

// serve runs a plain server until the context ends.
func serve(ctx context.Context, all *sync.WaitGroup, h http.Handler) (address string, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	all.Go(func() { _ = server.Serve(listener) })
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return "http://" + listener.Addr().String(), nil
}

// serveGateway runs the gateway as the command line does.
func serveGateway(ctx context.Context, all *sync.WaitGroup, api string) (address string, err error) {
	h, err := host.New(ctx, host.Config{
		Secrets: host.MapSecrets{"key": apiKey}, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true},
	})
	if err != nil {
		return "", err
	}
	connected, err := h.Connect(ctx, host.Connector{Name: "weather", Origins: []string{api}, Auth: apiKeyAuth})
	if err != nil {
		return "", errors.Join(err, h.Close(ctx))
	}
	compiled, problems := gateway.Compile(h, connected, gateway.Definition{Name: "Weather", Permalink: "weather", URL: api, Auth: apiKeyAuth})
	if len(problems) > 0 {
		return "", errors.Join(fmt.Errorf("%+v", problems), h.Close(ctx))
	}
	g := gateway.New(gateway.Config{})
	g.Use(gateway.Setup{Connectors: []*gateway.Connector{compiled}})
	started := make(chan string, 1)
	ended := make(chan error, 1)
	all.Go(func() {
		ended <- httpserver.Run(ctx, httpserver.Config{
			Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Handler: g.Handler(), Logger: slog.New(slog.DiscardHandler),
			Started: func(callers, _ net.Addr) { started <- "http://" + callers.String() },
		})
		_ = h.Close(context.WithoutCancel(ctx))
	})
	select {
	case address = <-started:
		return address, nil
	case err := <-ended:
		return "", err
	}
}
