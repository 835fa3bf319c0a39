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
	"slices"
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
				return throughGateway(ctx, s, func(l load) float64 { return float64(l.took) / float64(len(l.latencies)) })
			},
		},
		{
			work: "gateway, api_key, 16 clients: p99", against: against, unit: nanoseconds, goal: 1.2,
			measure: func(ctx context.Context, s session) (result, error) {
				return throughGateway(ctx, s, func(l load) float64 { return float64(l.latencies[len(l.latencies)*99/100]) })
			},
		},
	}
}

const loadClients = 16

// load is what clients saw.
type load struct {
	took      time.Duration
	latencies []time.Duration // sorted
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
	target, err := url.Parse(api)
	if err != nil {
		return result{}, err
	}
	peer, err := serve(ctx, &all, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 64},
	})
	if err != nil {
		return result{}, err
	}
	ours, err := serveGateway(ctx, &all, api)
	if err != nil {
		return result{}, err
	}
	client := &http.Transport{MaxIdleConnsPerHost: loadClients}
	defer client.CloseIdleConnections()
	sides := [2]string{ours + "/connectors/weather", peer + "/"}
	for _, side := range sides { // once to warm up
		if _, err := drive(ctx, client, side, s.slice/10); err != nil {
			return result{}, err
		}
	}
	return s.rounds(ctx, func(round int) ([2]float64, error) {
		var loads [2]load
		for turn := range 2 * parts {
			which := (turn + turn/2 + round) % 2
			l, err := drive(ctx, client, sides[which], s.slice/parts)
			if err != nil {
				return [2]float64{}, err
			}
			loads[which].took += l.took
			loads[which].latencies = append(loads[which].latencies, l.latencies...)
		}
		slices.Sort(loads[0].latencies)
		slices.Sort(loads[1].latencies)
		return [2]float64{figure(loads[0]), figure(loads[1])}, nil
	}, func(v [2]float64) float64 { return v[0] / v[1] })
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

// drive has the clients send requests for a slice of time.
func drive(ctx context.Context, client http.RoundTripper, address string, slice time.Duration) (load, error) {
	var mu sync.Mutex
	var l load
	var failed error
	var all sync.WaitGroup
	began := time.Now()
	for range loadClients {
		all.Go(func() {
			var latencies []time.Duration
			var err error
			for time.Since(began) < slice && err == nil {
				begin := time.Now()
				err = fetch(ctx, client, address)
				latencies = append(latencies, time.Since(begin))
			}
			mu.Lock()
			defer mu.Unlock()
			l.latencies, failed = append(l.latencies, latencies...), errors.Join(failed, err)
		})
	}
	all.Wait()
	l.took = time.Since(began)
	slices.Sort(l.latencies)
	return l, failed
}

func fetch(ctx context.Context, client http.RoundTripper, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := client.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
