package httpserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"
)

// checkOpen returns an error if machines other than this one reach the operators' paths without a login. It warns of one without TLS.
func (c Config) checkOpen(operators net.Addr) error {
	switch {
	case loopback(operators):
	case c.Login == nil:
		return fmt.Errorf("listening for operators on %s: operators from other machines have to log in: name a file with a token in --admin-token-file, or listen on 127.0.0.1", c.Admin)
	case c.TLS == nil:
		c.Logger.Warn("operators use plain HTTP, and whoever is on the way to them can read their token: give callers TLS, which operators then have, too, or listen on 127.0.0.1")
	}
	return nil
}

// loopback reports whether an address is reached from this machine alone.
func loopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func urlOf(s *http.Server, address net.Addr) string {
	if s.TLSConfig != nil {
		return "https://" + address.String()
	}
	return "http://" + address.String()
}

func (c Config) operate(draining *atomic.Bool) http.Handler {
	open, protected := http.NewServeMux(), http.NewServeMux()
	open.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	open.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { c.readyz(w, draining) })
	protected.HandleFunc("GET /debug/pprof/", pprof.Index)
	protected.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	protected.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for pattern, handler := range c.Operate {
		protected.Handle(pattern, handler)
	}
	guarded, listen := http.Handler(protected), c.Admin
	if c.Login != nil {
		guarded, listen = c.Login(protected), anyName
	}
	open.Handle("/", guarded)
	return refuseOtherSites(forOperators(open), listen)
}

// readyz answers /readyz. Behind a login it says no more than whether the server is ready, because anybody may ask.
func (c Config) readyz(w http.ResponseWriter, draining *atomic.Bool) {
	err := error(nil)
	if c.Ready != nil {
		err = c.Ready()
	}
	if draining.Load() {
		err = errors.New("the server is about to end")
	}
	switch {
	case err != nil && c.Login != nil:
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ready")
	if c.Notice != nil && c.Login == nil {
		if notice := c.Notice(); notice != "" {
			_, _ = fmt.Fprintln(w, notice)
		}
	}
}

// forOperators adds the headers that keep an answer from pages of other origins and from caches. With the policy no-referrer, browsers
// would send Origin: null with forms to plain http.
func forOperators(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		} {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}

// anyName is the listen of refuseOtherSites for a listener that has any name.
const anyName = "*"

// refuseOtherSites refuses requests that pages of other origins make a browser send. A page's own host name may resolve
// to this address (DNS rebinding), so it also refuses all host names but localhost and the one in listen. With [anyName] it does
// not: behind a login, such a page has neither a token nor the cookie of another name.
func refuseOtherSites(h http.Handler, listen string) http.Handler {
	own, _, _ := net.SplitHostPort(listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = r.Host
		}
		switch {
		case listen != anyName && net.ParseIP(strings.Trim(name, "[]")) == nil && name != "localhost" && name != own:
			http.Error(w, "this listener is not known under that name", http.StatusMisdirectedRequest)
		case !ofOtherSite(r):
			h.ServeHTTP(w, r)
		case r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document":
			linked(w)
		default:
			http.Error(w, "pages of other sites may not call this listener", http.StatusForbidden)
		}
	})
}

// ofOtherSite reports whether a page of another origin made a browser send a request. Browsers send Sec-Fetch-Site to https and to this
// machine, and Origin with all that is not GET or HEAD.
func ofOtherSite(r *http.Request) bool {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "same-origin", "none":
		return false
	case "":
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		origin := r.Header.Get("Origin")
		return origin != "" && origin != scheme+r.Host
	}
	return true
}

// linked lets a person who followed a link of another page decide whether to go on. It is the same for all paths.
func linked(w http.ResponseWriter) {
	for name, value := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
		"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		w.Header().Set(name, value)
	}
	w.WriteHeader(http.StatusForbidden)
	_, _ = fmt.Fprint(w, `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Open this page?</title>`+
		`<main><h1>Open this page?</h1><p>Another page has sent you here. <a href="">Open it</a></p></main>`)
}
