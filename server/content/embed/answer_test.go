package embed_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content/embed"
)

func TestRequestsToProviders(t *testing.T) {
	w := newService()
	w.resolver(t).Resolve(t.Context(), "<p>"+pic+"</p>")
	if w.Count() != 1 {
		t.Fatalf("%d requests", w.Count())
	}
	r := w.Last()
	want := "https://pics.example.org/api/oembed.json?format=json&key=1&maxwidth=800&url=https%3A%2F%2Fpics.example.org%2Fphotos%2F7%2Fby%2Fann"
	if r.Method != http.MethodGet || r.URL != want || r.Body != "" {
		t.Errorf("%s %s, not GET %s", r.Method, r.URL, want)
	}
	if len(r.Header) != 2 || r.Header.Get("Accept") != "application/json" || !strings.HasPrefix(r.Header.Get("User-Agent"), "Keywright") {
		t.Errorf("the header is %v", r.Header)
	}
}

// The embed depends on the type of the answer. If the answer cannot be shown, the URL stays.
func TestAnswersByType(t *testing.T) {
	const img = `<div><img src="https://i.example.com/1.jpg" alt="A &#34;b&#34; &lt;c&gt;" width="640" height="480"/></div>`
	stays := "<p>" + one + "</p>"
	for name, c := range map[string]struct{ answer, want string }{
		"rich":                {`{"type":"rich","html":"<p>x</p>"}`, "<div><p>x</p></div>"},
		"video":               {`{"type":"video","html":"<p>x</p>","width":"100%","height":null,"cache_age":"soon"}`, "<div><p>x</p></div>"},
		"photo":               {`{"type":"photo","url":"https://i.example.com/1.jpg","width":640,"height":"480","title":"A \"b\" <c>"}`, img},
		"photo without size":  {`{"type":"photo","url":"https://i.example.com/1.jpg","width":-1,"height":1e9}`, `<div><img src="https://i.example.com/1.jpg" alt=""/></div>`},
		"photo by http":       {`{"type":"photo","url":"http://i.example.com/1.jpg"}`, stays},
		"photo of a script":   {`{"type":"photo","url":"javascript:alert(1)"}`, stays},
		"photo of data":       {`{"type":"photo","url":"data:image/png;base64,AA"}`, stays},
		"photo with a user":   {`{"type":"photo","url":"https://a@i.example.com/"}`, stays},
		"photo without a URL": {`{"type":"photo"}`, stays},
		"link":                {`{"type":"link","html":"<p>x</p>"}`, stays},
		"no type":             {`{"html":"<p>x</p>"}`, stays},
		"no HTML":             {`{"type":"rich","html":null}`, stays},
		"only a script":       {`{"type":"rich","html":"<div><script src=https://x.example/></script></div>"}`, stays},
		"only a frame of others": {
			`{"type":"rich","html":"<iframe src=\"https://evil.example/\"></iframe>"}`, stays,
		},
		"a number for HTML": {`{"type":"rich","html":7}`, stays},
		"an array":          {`[]`, stays},
		"two documents":     {`{"type":"rich","html":"x"}{}`, stays},
		"nothing":           {"", stays},
		"HTML":              {"<html>", stays},
		"too deep":          {strings.Repeat("[", 20000), stays},
		"long HTML":         {rich(strings.Repeat("x", 64<<10)), "<div>" + strings.Repeat("x", 64<<10) + "</div>"},
		"longer HTML":       {rich(strings.Repeat("x", 64<<10+1)), stays},
		"HTML that grows":   {rich(strings.Repeat("<b><p>x", 8000)), stays},
		"HTML that shrinks": {rich("x" + strings.Repeat("<!-- -->", 8<<10)), stays},
		"HTML that is deep": {rich(strings.Repeat("<div>", 1000) + "x"), stays},
		"a quote and its script": {
			`{"type":"rich","html":"<blockquote class=\"x\"><p>said</p>&mdash; Ann</blockquote>\n<script async src=\"https://x.example/\"></script>"}`,
			"<div><blockquote><p>said</p>— Ann</blockquote>\n</div>",
		},
		"HTML that ends what it is in": {`{"type":"rich","html":"</div></p></body>x<p>y"}`, "<div><p></p>x<p>y</p></div>"},
		"a player": {
			`{"type":"video","html":"<iframe width=\"480\" height=\"270\" src=\"https://player.tube.example.com/e/1?a=b&amp;c=d\" title=\"A: b\" frameborder=\"0\" allow=\"autoplay; camera\" onload=\"x()\" name=\"n\" allowfullscreen></iframe>"}`,
			`<div><iframe src="https://player.tube.example.com/e/1?a=b&amp;c=d" width="480" height="270" title="A: b"` + frameRest + `></iframe></div>`,
		},
		"a player without a size": {
			`{"type":"video","html":"<iframe width=\"100%\" height=\"99999\" src=\"https://pics.example.org/\">text</iframe>"}`,
			`<div><iframe src="https://pics.example.org/"` + frameRest + `></iframe></div>`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newService()
			w.says(c.answer)
			if got := w.resolver(t).Resolve(t.Context(), "<p>"+one+"</p>"); got != c.want {
				t.Errorf("%.300s is shown as\n%s, not\n%s", c.answer, got, c.want)
			}
		})
	}
}

// frameRest is the attributes that every frame has.
const frameRest = ` sandbox="allow-scripts allow-same-origin allow-popups allow-presentation" referrerpolicy="strict-origin-when-cross-origin" loading="lazy" allowfullscreen=""`

func TestFailingProviders(t *testing.T) {
	good := rich("<p>x</p>")
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"an error":        func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		"404":             func(*http.Request) (*http.Response, error) { return reply(404, "application/json", good), nil },
		"401":             func(*http.Request) (*http.Response, error) { return reply(401, "application/json", good), nil },
		"500":             func(*http.Request) (*http.Response, error) { return reply(500, "application/json", good), nil },
		"206":             func(*http.Request) (*http.Response, error) { return reply(206, "application/json", good), nil },
		"HTML by type":    func(*http.Request) (*http.Response, error) { return reply(200, "text/html", good), nil },
		"no type":         func(*http.Request) (*http.Response, error) { return reply(200, "", good), nil },
		"JSONP":           func(*http.Request) (*http.Response, error) { return reply(200, "application/javascript", good), nil },
		"a huge answer":   func(*http.Request) (*http.Response, error) { return huge(good), nil },
		"a broken answer": func(*http.Request) (*http.Response, error) { return broken(good), nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newService()
			w.Answer(answer)
			in := "<p>" + one + "</p>"
			if got := w.resolver(t).Resolve(t.Context(), in); got != in {
				t.Errorf("it became %s", got)
			}
		})
	}
	for _, media := range []string{"application/json; charset=utf-8", "text/json", "application/json+oembed", "application/vnd.x+json"} {
		w := newService()
		w.Answer(testworld.Respond(http.StatusOK, good, "Content-Type", media))
		if got := w.resolver(t).Resolve(t.Context(), one); got != "<div><p>x</p></div>" {
			t.Errorf("%s is not taken for JSON", media)
		}
	}
}

// endless is a body that does not end. It counts the bytes that were read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

func (*endless) Close() error { return nil }

func huge(good string) *http.Response {
	return reply(200, "application/json", good+strings.Repeat(" ", 256<<10))
}

func broken(good string) *http.Response {
	r := reply(200, "application/json", "")
	r.Body = struct {
		*strings.Reader
		failing
	}{strings.NewReader(good[:len(good)/2]), failing{}}
	return r
}

type failing struct{}

func (failing) Close() error { return errors.New("the connection is gone") }

func TestReadLimit(t *testing.T) {
	w, body := newService(), &endless{}
	w.Answer(func(*http.Request) (*http.Response, error) {
		r := reply(200, "application/json", "")
		r.Body = body
		return r, nil
	})
	if got := w.resolver(t).Resolve(t.Context(), one); got != one {
		t.Errorf("it became %s", got)
	}
	if body.read > 1<<20 {
		t.Errorf("%d bytes were read", body.read)
	}
}

// threats.md 50: the limit of an answer holds for a transport that decompresses and for one that does not.
func TestGzipBombs(t *testing.T) {
	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	_, _ = io.WriteString(packed, rich("x")+strings.Repeat(" ", 8<<20))
	_ = packed.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	}))
	defer server.Close()
	list := fmt.Sprintf(`[{"provider_name":"Bomb","endpoints":[{"url":"%s/oembed","schemes":["https://tu.example.net/*"]}]}]`, server.URL)
	guarded := testworld.Must(host.Egress{AllowPrivate: true, TLS: &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}.Transport())(t)
	defer guarded.CloseIdleConnections()
	for name, transport := range map[string]http.RoundTripper{"a transport that unpacks": server.Client().Transport, "that of host": guarded} {
		var log bytes.Buffer
		r := testworld.Must(embed.New(embed.Config{Transport: transport, Providers: []byte(list), Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
		if got := r.Resolve(t.Context(), two); got != two {
			t.Errorf("%s: it became %s", name, got)
		}
		if !strings.Contains(log.String(), "the provider's answer ") {
			t.Errorf("%s: it failed for another reason: %s", name, log.String())
		}
	}
}

func TestRedirects(t *testing.T) {
	for name, c := range map[string]struct {
		targets []string
		follow  bool
	}{
		"to the same provider":    {[]string{"https://api.tube.example.com/v2"}, true},
		"to another provider":     {[]string{"https://pics.example.org/"}, true},
		"three times":             {[]string{"https://pics.example.org/1", "/2", "/3"}, true},
		"four times":              {[]string{"https://pics.example.org/1", "/2", "/3", "/4"}, false},
		"to http":                 {[]string{"http://www.tube.example.com/oembed"}, false},
		"to somebody unknown":     {[]string{"https://evil.example/"}, false},
		"to a similar name":       {[]string{"https://tube.example.com.evil.example/"}, false},
		"to another port":         {[]string{"https://www.tube.example.com:8443/"}, false},
		"with a password":         {[]string{"https://a:b@www.tube.example.com/"}, false},
		"inside":                  {[]string{"https://169.254.169.254/latest/meta-data"}, false},
		"to a known one, then on": {[]string{"https://pics.example.org/1", "https://10.0.0.1/"}, false},
		"to a file":               {[]string{"file:///etc/passwd"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newService()
			left := c.targets
			w.Answer(func(*http.Request) (*http.Response, error) {
				if len(left) == 0 {
					return reply(200, "application/json", rich("done")), nil
				}
				r := reply(302, "application/json", rich("not yet"))
				r.Header.Set("Location", left[0])
				r.Header.Set("Set-Cookie", "a=b")
				left = left[1:]
				return r, nil
			})
			got := w.resolver(t).Resolve(t.Context(), one)
			if want := map[bool]string{true: "<div>done</div>", false: one}[c.follow]; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			for _, r := range w.Received() {
				for _, name := range []string{"Referer", "Cookie", "Authorization"} {
					if r.Header.Get(name) != "" {
						t.Errorf("the request to %s has %s: %s", r.URL, name, r.Header.Get(name))
					}
				}
				if u, err := url.Parse(r.URL); err != nil || !strings.Contains(u.Host, "example") || strings.Contains(u.Host, "evil") || u.Scheme != "https" {
					t.Errorf("%s was asked", r.URL)
				}
			}
			if c.follow && w.Count() != len(c.targets)+1 {
				t.Errorf("%d requests", w.Count())
			}
		})
	}
}

// Without Config.Providers, the built-in list is used.
func TestPublishedList(t *testing.T) {
	w := newService()
	r := testworld.Must(embed.New(embed.Config{Transport: w}))(t)
	for url, endpoint := range map[string]string{
		"https://www.youtube.com/watch?v=dQw4w9WgXcQ": "https://www.youtube.com/oembed",
		"https://youtu.be/dQw4w9WgXcQ":                "https://www.youtube.com/oembed",
		"https://vimeo.com/76979871":                  "https://vimeo.com/api/oembed.json",
		"https://giphy.com/gifs/cat-1":                "https://giphy.com/services/oembed",
	} {
		before := w.Count()
		if got, want := r.Resolve(t.Context(), url), fmt.Sprintf("<div><b>embed of %s</b></div>", url); got != want {
			t.Errorf("%s became %s", url, got)
		} else if asked := w.Received()[before].URL; !strings.HasPrefix(asked, endpoint+"?") {
			t.Errorf("%s was asked about %s", asked, url)
		}
	}
}

// after returns an answer that arrives after d, or fails if the context of the request ends before.
func after(d time.Duration) testworld.Answer {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return reply(200, "application/json", rich("embedded")), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func urls(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "<p>https://tu.example.net/%d</p>", i)
	}
	return all.String()
}

func TestTimeLimits(t *testing.T) {
	for name, c := range map[string]struct {
		urls, want int
		each, took time.Duration
	}{
		"in time":                        {1, 1, 2 * time.Second, 2 * time.Second},
		"too slow":                       {1, 0, 5 * time.Second, 3 * time.Second},
		"eight at once":                  {8, 8, 2 * time.Second, 2 * time.Second},
		"twenty, in three turns":         {20, 20, time.Second, 3 * time.Second},
		"what is not there after four s": {20, 8, 2500 * time.Millisecond, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newService()
				w.Answer(after(c.each))
				begin := time.Now()
				got := w.resolver(t).Resolve(t.Context(), urls(c.urls))
				if embeds := strings.Count(got, "embedded"); embeds != c.want {
					t.Errorf("%d embeds, not %d", embeds, c.want)
				}
				if stayed := strings.Count(got, "<p>https://"); stayed != c.urls-c.want {
					t.Errorf("%d URLs stayed, not %d", stayed, c.urls-c.want)
				}
				if took := time.Since(begin); took != c.took {
					t.Errorf("it took %s, not %s", took, c.took)
				}
				<-time.After(time.Minute) // until the remaining fetches have ended
			})
		})
	}
}

// An answer whose body arrives too slowly is cut off like one that does not begin.
func TestDrippingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		w.Answer(func(r *http.Request) (*http.Response, error) {
			answer := reply(200, "application/json", "")
			answer.Body = &drip{r.Context()}
			return answer, nil
		})
		begin := time.Now()
		if got := w.resolver(t).Resolve(t.Context(), one); got != one || time.Since(begin) != 3*time.Second {
			t.Errorf("after %s it is %s", time.Since(begin), got)
		}
	})
}

type drip struct{ ctx context.Context }

func (d *drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(100 * time.Millisecond):
		return copy(p, " "), nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

func (*drip) Close() error { return nil }

// Concurrent callers of one URL share a fetch, even if the first of them goes away.
func TestConcurrentCallersShareAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		w.Answer(after(2 * time.Second))
		r := w.resolver(t)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if got := r.Resolve(ctx, one); got != one {
				t.Errorf("who went away got %s", got)
			}
		})
		synctest.Wait()
		var embeds atomic.Int64
		for range 100 {
			all.Go(func() {
				if strings.Contains(r.Resolve(t.Context(), one), "embedded") {
					embeds.Add(1)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if embeds.Load() != 100 || w.Count() != 1 {
			t.Errorf("%d embeds of %d requests, want 100 of one", embeds.Load(), w.Count())
		}
	})
}

// A fetch fills the cache even if all of its callers have gone away.
func TestAFetchGoesOnWithoutItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		w.Answer(after(2 * time.Second))
		r := w.resolver(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := r.Resolve(ctx, one); got != one {
			t.Errorf("got %s", got)
		}
		<-time.After(2 * time.Second)
		if got := r.Resolve(t.Context(), one); !strings.Contains(got, "embedded") || w.Count() != 1 {
			t.Errorf("after %d requests it is %s", w.Count(), got)
		}
	})
}

// If the caller has already gone away, no provider is asked, and the body is sanitised all the same.
func TestDisconnectedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got := w.resolver(t).Resolve(ctx, one+"<script>x</script>")
		synctest.Wait()
		if got != one || w.Count() != 0 {
			t.Errorf("after %d requests it is %s", w.Count(), got)
		}
	})
}

// At most 64 fetches of all documents run at once. A fetch that did not get its turn in time is not cached as a failure.
func TestTotalFetchBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newService()
		var mu sync.Mutex
		running, most := 0, 0
		w.Answer(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			defer func() {
				mu.Lock()
				running--
				mu.Unlock()
			}()
			return after(time.Hour)(r)
		})
		r := w.resolver(t)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() { r.Resolve(t.Context(), fmt.Sprintf("https://tu.example.net/%d", i)) })
		}
		all.Wait()
		if most != 64 {
			t.Errorf("%d ran at once, not 64", most)
		}
		asked := w.Count()
		w.Answer(after(0))
		embeds := 0
		for i := range 100 {
			if strings.Contains(r.Resolve(t.Context(), fmt.Sprintf("https://tu.example.net/%d", i)), "embedded") {
				embeds++
			}
		}
		if embeds != 100-asked {
			t.Errorf("%d are embedded later, of %d that were never asked for", embeds, 100-asked)
		}
	})
}

func TestAnswerLifetime(t *testing.T) {
	const failed = `{"type":"link"}`
	for name, c := range map[string]struct {
		answer string
		kept   time.Duration
	}{
		"without an age": {`{"type":"rich","html":"x"}`, time.Hour},
		"an age":         {`{"type":"rich","html":"x","cache_age":7200}`, 2 * time.Hour},
		"a text":         {`{"type":"rich","html":"x","cache_age":"7200"}`, 2 * time.Hour},
		"short":          {`{"type":"rich","html":"x","cache_age":1}`, 5 * time.Minute},
		"long":           {`{"type":"rich","html":"x","cache_age":31536000}`, 24 * time.Hour},
		"absurd":         {`{"type":"rich","html":"x","cache_age":9223372036854775807}`, 24 * time.Hour},
		"more than that": {`{"type":"rich","html":"x","cache_age":92233720368547758070}`, time.Hour},
		"negative":       {`{"type":"rich","html":"x","cache_age":-5}`, time.Hour},
		"none":           {`{"type":"rich","html":"x","cache_age":0}`, time.Hour},
		"a failure":      {failed, time.Minute},
		"a long failure": {`{"type":"link","cache_age":7200}`, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newService()
			w.says(c.answer)
			r := w.resolver(t)
			for i, step := range []time.Duration{0, c.kept - 1, 1} {
				w.Advance(step)
				r.Resolve(t.Context(), one)
				if want := []int{1, 1, 2}[i]; w.Count() != want {
					t.Errorf("%d requests, not %d, after step %d", w.Count(), want, i)
				}
			}
			w.Advance(-time.Second)
			if r.Resolve(t.Context(), one); w.Count() != 3 {
				t.Error("an answer of the future is used, when the clock was set back")
			}
		})
	}
}
