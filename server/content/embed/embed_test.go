package embed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"pgregory.net/rapid"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content/embed"
)

const (
	one = "https://www.tube.example.com/watch?v=1"
	two = "https://tu.example.net/2"
	pic = "https://pics.example.org/photos/7/by/ann"
)

// done returns the embed of a URL by the providers of newService.
func done(url string) string { return "<div><b>embed of " + url + "</b></div>" }

func link(url string) string { return `<a href="` + url + `">` + url + `</a>` }

// specification.md 6.6: oEmbed URLs that stand alone become the provider's HTML.
func TestEmbeddedURLs(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"a paragraph":                {"<p>" + one + "</p>", done(one)},
		"a link in a paragraph":      {"<p>" + link(one) + "</p>", done(one)},
		"a div":                      {"<div>" + one + "</div>", "<div>" + done(one) + "</div>"},
		"a figure with a caption":    {"<figure>" + one + "<figcaption>x</figcaption></figure>", "<figure>" + done(one) + "<figcaption>x</figcaption></figure>"},
		"a section":                  {"<section><p>" + one + "</p></section>", "<section>" + done(one) + "</section>"},
		"the whole body":             {one, done(one)},
		"a link as the whole body":   {link(one), done(one)},
		"white space around":         {"<p>\n  " + one + " &nbsp;\n</p>", done(one)},
		"breaks around":              {"<p><br>" + one + "<br/><br/></p>", done(one)},
		"a link with breaks around":  {"<p>\n" + link(one) + "\n<br></p>", done(one)},
		"plain text":                 {"See\n" + one + "\nand more", "See\n" + done(one) + "and more"},
		"http":                       {"<p>http://www.tube.example.com/watch?v=1</p>", done("http://www.tube.example.com/watch?v=1")},
		"capitals in the host":       {"<p>HTTPS://WWW.Tube.example.com/watch?v=1</p>", done("HTTPS://WWW.Tube.example.com/watch?v=1")},
		"the usual port":             {"<p>https://tu.example.net:443/2</p>", done("https://tu.example.net:443/2")},
		"a list item beside it":      {"<ul><li>x</li></ul><p>" + one + "</p>", "<ul><li>x</li></ul>" + done(one)},
		"an ampersand in the URL":    {"<p>" + one + "&amp;t=3</p>", done(one + "&amp;t=3")},
		"two with different answers": {"<p>" + one + "</p><p>" + pic + "</p>", done(one) + done(pic)},
		"the same twice":             {"<p>" + one + "</p><p>" + one + "</p>", done(one) + done(one)},
		"escapes that the link has": {
			`<p><a href="https://tu.example.net/%C3%BC">https://tu.example.net/ü</a></p>`, done("https://tu.example.net/ü"),
		},
		"between breaks": {
			`<p id="a" dir="ltr">before<br>` + one + "<br>after</p>", `<p id="a" dir="ltr">before</p>` + done(one) + `<p dir="ltr">after</p>`,
		},
		"lines of one paragraph": {
			"<p>before\n" + one + "\nbetween <i>x</i><br>" + link(two) + "</p>", "<p>before\n</p>" + done(one) + "<p>between <i>x</i></p>" + done(two),
		},
		"several in one paragraph": {"<p>" + one + "<br>" + two + "\n" + pic + "</p>", done(one) + done(two) + done(pic)},
		"an indented link after another": {
			"<p>" + one + "\n  " + link(two) + "\n \t" + link(pic) + "\n after</p>", done(one) + done(two) + done(pic) + "<p> after</p>",
		},
		"one embedded, one not": {
			"<p>https://other.example.com/<br>" + one + "<br>https://other.example.com/</p>",
			"<p>https://other.example.com/</p>" + done(one) + "<p>https://other.example.com/</p>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newService().resolver(t).Resolve(t.Context(), c.in); got != c.want {
				t.Errorf("%s became\n%s, not\n%s", c.in, got, c.want)
			}
		})
	}
}

func TestOtherURLsStay(t *testing.T) {
	for name, in := range map[string]string{
		"in a sentence":           "<p>see " + one + "</p>",
		"with a stop":             "<p>" + one + " .</p>",
		"two on a line":           "<p>" + one + " " + two + "</p>",
		"another text":            `<p><a href="` + one + `" rel="nofollow noopener">my video</a></p>`,
		"another target":          `<p><a href="` + one + `" rel="nofollow noopener">` + two + `</a></p>`,
		"a link in a sentence":    `<p>see <a href="` + one + `" rel="nofollow noopener">` + one + `</a></p>`,
		"beside emphasised text":  "<p>" + one + " <i>x</i></p>",
		"beside an image":         `<p><img src="https://i.example.com/" alt=""/>` + one + "</p>",
		"emphasised":              "<p><b>" + one + "</b></p>",
		"in preformatted text":    "<pre>" + one + "</pre>",
		"in a block of code":      "<pre><code>x\n" + one + "\n</code></pre>",
		"in code":                 "<p><code>" + one + "</code></p>",
		"in a list":               "<ul><li>" + one + "</li></ul>",
		"in a list, in a block":   "<ul><li><p>" + one + "</p></li></ul>",
		"in a table":              "<table><tbody><tr><td>" + one + "</td></tr></tbody></table>",
		"in a quote":              "<blockquote><p>" + one + "</p></blockquote>",
		"in a heading":            "<h2>" + one + "</h2>",
		"in an attribute":         `<p><img src="https://i.example.com/" alt="` + one + `"/></p>`,
		"no provider's":           "<p>https://example.com/watch?v=1</p>",
		"no path of the provider": "<p>https://www.tube.example.com/about</p>",
		"no host of the provider": "<p>https://tube.example.com/watch?v=1</p>",
		"a host in the path":      "<p>https://evil.example/.tube.example.com/watch</p>",
		"a longer host":           "<p>https://www.tube.example.com.evil.example/watch</p>",
		"a host before the host":  "<p>https://eviltube.example.com/watch</p>",
		"a host in the query":     "<p>https://evil.example?.tube.example.com/watch</p>",
		"a user in the URL":       "<p>https://www.tube.example.com@evil.example/watch</p>",
		"a provider as the user":  "<p>https://evil.example@www.tube.example.com/watch</p>",
		"a backslash":             `<p>https://evil.example\.tube.example.com/watch</p>`,
		"another port":            "<p>https://www.tube.example.com:8443/watch</p>",
		"another scheme":          "<p>ftp://www.tube.example.com/watch</p>",
		"without a scheme":        "<p>//www.tube.example.com/watch</p>",
		"an empty label":          "<p>https://.tube.example.com/watch</p>",
		"very long":               "<p>" + one + strings.Repeat("x", 2048) + "</p>",
	} {
		t.Run(name, func(t *testing.T) {
			w := newService()
			if got := w.resolver(t).Resolve(t.Context(), in); got != in {
				t.Errorf("%s became\n%s", in, got)
			}
			if w.Count() != 0 {
				t.Error("a provider was asked")
			}
		})
	}
}

// The sanitiser does not change the HTML that an editor writes.
func TestEditorMarkup(t *testing.T) {
	for _, in := range []string{
		"", "plain text", "a &amp; b &lt;c&gt;", "<p>one</p>\n<p>two<br/>three</p>",
		"<h1>a</h1><h2>b</h2><h3>c</h3><h4>d</h4><h5>e</h5><h6>f</h6>",
		"<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>", "<dl><dt>a</dt><dd>b</dd></dl>",
		`<table><caption>t</caption><thead><tr><th scope="col">a</th></tr></thead><tbody><tr><td colspan="2">b</td></tr></tbody></table>`,
		`<p><img src="https://i.example.com/x.png" alt="Is it 100%? &#34;Yes&#34; &amp; more" width="640" height="480"/></p>`,
		`<p><img src="/uploads/x.png" alt="" title="a: b?"/></p>`,
		`<p><a href="https://example.com/a?b=c&amp;d=e#f" rel="nofollow noopener">x</a></p>`,
		`<p><a href="/topics/1" target="_blank" rel="nofollow noopener">x</a> <a href="mailto:a@example.com" rel="nofollow noopener">y</a></p>`,
		`<pre><code class="language-go">if a &lt; b {
}</code></pre>`,
		"<p><code>x</code> <kbd>y</kbd> <b>b</b> <strong>s</strong> <em>e</em> <i>i</i> <u>u</u> <s>s</s> <sub>1</sub><sup>2</sup> <mark>m</mark></p>",
		"<blockquote><p>a</p></blockquote><hr/><figure><figcaption>f</figcaption></figure>",
		"<details><summary>a</summary><p>b</p></details>", `<p dir="rtl" lang="he">שלום</p>`, "<p>🎉 ünïcödé</p>",
	} {
		w := newService()
		if got := w.resolver(t).Resolve(t.Context(), in); got != in {
			t.Errorf("%s became\n%s", in, got)
		}
	}
}

// Malformed HTML loses none of its text.
func TestOddBodies(t *testing.T) {
	for name, in := range map[string]string{
		"a frame that is never ended":   "<frame>TEXT",
		"a form":                        "<form action=/><input value=x><button>TEXT</button>",
		"tags that nobody knows":        "<x-y><foo bar=1>TEXT",
		"end tags without a start":      "</div></p></b>TEXT</table>",
		"nested deeper than a parser":   strings.Repeat("<div>", 5000) + "TEXT",
		"elements without end":          strings.Repeat("<b><p>", 200) + "TEXT",
		"a table that holds paragraphs": "<table><p>TEXT<tr><a href=/><td><a href=/>",
		"bytes that are no UTF-8":       "\xff\xfe TEXT \x00\x01",
		"an open comment before":        "TEXT<!-- ",
		"a plaintext element":           "<plaintext>TEXT",
		"a textarea":                    "<textarea>TEXT",
	} {
		t.Run(name, func(t *testing.T) {
			if got := newService().resolver(t).Resolve(t.Context(), in); !strings.Contains(got, "TEXT") {
				t.Errorf("%.200q became %.200q", in, got)
			}
		})
	}
}

func TestAtMostTwentyEmbeds(t *testing.T) {
	var in strings.Builder
	for range 15 {
		in.WriteString("<p>" + one + "</p><p>" + two + "</p>")
	}
	w := newService()
	got := w.resolver(t).Resolve(t.Context(), in.String())
	if embeds := strings.Count(got, "embed of"); embeds != 20 || w.Count() != 2 {
		t.Errorf("%d embeds, for which %d requests were sent; want 20 and 2", embeds, w.Count())
	}
	if urls := strings.Count(got, "<p>https://"); urls != 10 {
		t.Errorf("%d URLs stayed, not 10", urls)
	}
}

func TestInvalidConfiguration(t *testing.T) {
	for name, c := range map[string]embed.Config{
		"no transport": {}, "no list": {Transport: newService(), Providers: []byte("{}")}, "no JSON": {Transport: newService(), Providers: []byte("<")},
	} {
		if _, err := embed.New(c); err == nil || !strings.HasPrefix(err.Error(), "embed: ") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// providerList is a list of two providers. The first has two schemes.
const providerList = `[
 {"provider_name": "Tube", "provider_url": "https://www.tube.example.com/", "endpoints": [
  {"url": "https://www.tube.example.com/oembed", "schemes": ["https://*.tube.example.com/watch*", "https://tu.example.net/*"], "discovery": true}]},
 {"provider_name": "Pics", "provider_url": "https://pics.example.org/", "endpoints": [
  {"url": "http://pics.example.org/api/oembed.{format}?key=1", "schemes": ["http://pics.example.org/photos/*/by/*"]}]}]`

// service plays all providers, and has the clock.
type service struct {
	*testworld.Server
	*testworld.Clock
}

func newService() *service {
	return &service{
		testworld.NewServer(func(r *http.Request) (*http.Response, error) {
			return reply(200, "application/json", rich("<b>embed of "+r.URL.Query().Get("url")+"</b>")), nil
		}),
		testworld.NewClock(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)),
	}
}

func (w *service) resolver(t testing.TB) *embed.Resolver {
	t.Helper()
	return testworld.Must(embed.New(embed.Config{Transport: w, Clock: w.Now, Providers: []byte(providerList)}))(t)
}

// says sets the document that each provider answers with.
func (w *service) says(document string) {
	w.Answer(testworld.Respond(http.StatusOK, document, "Content-Type", "application/json"))
}

func reply(status int, media, body string) *http.Response {
	return testworld.Response(status, body, "Content-Type", media)
}

// rich returns an answer of type rich with this HTML.
func rich(html string) string {
	document, _ := json.Marshal(map[string]string{"version": "1.0", "type": "rich", "html": html})
	return string(document)
}

// The log contains no URL of a document, even if a provider repeats it in a redirect.
func TestLogHasNoURLOfARedirect(t *testing.T) {
	w := newService()
	w.Answer(func(r *http.Request) (*http.Response, error) {
		response := reply(http.StatusFound, "text/plain", "")
		response.Header.Set("Location", r.URL.Query().Get("url")+"%zz")
		return response, nil
	})
	var log bytes.Buffer
	r := testworld.Must(embed.New(embed.Config{Transport: w, Logger: slog.New(slog.NewJSONHandler(&log, nil)), Providers: []byte(providerList)}))(t)
	r.Resolve(t.Context(), "<p>https://tu.example.net/private</p>")
	if got := log.String(); strings.Contains(got, "private") || !strings.Contains(got, "redirects") {
		t.Errorf("the log has %s", got)
	}
}

// open returns n different formatting elements that are not closed.
func open(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "<b title=%d>", i)
	}
	return all.String()
}

// threats.md 49: a document is reduced to its text if sanitising it takes too much time or memory for its size.
func TestHostileDocuments(t *testing.T) {
	roots := strings.Builder{}
	for i := range 60_000 {
		fmt.Fprintf(&roots, "<html a%d=1>", i)
	}
	for name, document := range map[string]string{
		"all attributes become those of one element": roots.String() + "<p>the text</p>",
		"elements come again in each paragraph":      "<p>" + open(400) + "</p>" + strings.Repeat("<p>the text", 20_000),
		"few elements come again in many paragraphs": "<p>" + open(50) + "</p>" + strings.Repeat("<p>the text", 2000),
		"too large": "<p>the text</p>" + strings.Repeat(" ", 1<<20),
	} {
		r := newService().resolver(t)
		for _, try := range []string{"first", "second"} {
			got := r.Resolve(t.Context(), document)
			if len(got) > len(document) || !strings.Contains(got, "the text") || strings.Contains(got, "<") {
				t.Errorf("%s, the %s time: of %d bytes of HTML came %d, not their text: %.100q", name, try, len(document), len(got), got)
			}
		}
	}
}

// A caller that goes away does not mark the document as failed for other callers.
func TestDocumentOfACallerWhoWentAway(t *testing.T) {
	r := newService().resolver(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = r.Resolve(ctx, "<p>some <b>text</b></p>")
	if got := r.Resolve(t.Context(), "<p>some <b>text</b></p>"); got != "<p>some <b>text</b></p>" {
		t.Errorf("it became %s", got)
	}
}

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

const alert = "javascript:alert(1)"

// vectors is HTML that runs something in a browser, as it is or after it was parsed and rendered again.
var vectors = []string{
	// elements
	"<script>alert(1)</script>", "<SCRIPT/SRC=//evil.example/x.js></SCRIPT>", "<scr<script>ipt>alert(1)</scr</script>ipt>", "<script", "<script>",
	"<style>@import '//evil.example'</style>", "<link rel=stylesheet href=//evil.example>", "<base href=//evil.example/>",
	"<meta http-equiv=refresh content='0;url=" + alert + "'>", "<object data=" + alert + "></object>", "<embed src=" + alert + ">",
	"<applet code=x></applet>", "<form action=" + alert + "><input type=submit><button formaction=" + alert + ">x</button></form>",
	"<isindex action=" + alert + ">", "<video><source onerror=alert(1)></video>", "<audio src=x onerror=alert(1)>",
	"<marquee onstart=alert(1)>x</marquee>", "<keygen autofocus onfocus=alert(1)>", "<portal src=//evil.example>", "<frameset onload=alert(1)><frame src=" + alert + ">",
	"<template><script>alert(1)</script></template>", "<template shadowrootmode=open><img src=x onerror=alert(1)></template>",
	"<dialog open onbeforetoggle=alert(1)>x</dialog>", "<select><option onclick=alert(1)>x</select>", "<x onclick=alert(1) tabindex=1>x</x>",
	// handlers
	"<img src=x onerror=alert(1)>", "<img/src=x/onerror=alert(1)>", "<IMG SRC=x ONERROR=alert(1)>", "<img src=x\nonerror\n=\nalert(1)>",
	"<img src='x' onerror\x0b=alert(1)>", "<b onmouseover=alert(1)>x</b>", "<p/onpointerenter=alert(1)>x", "<a href=/ on=1 onclick=alert(1)>x</a>",
	"<details open ontoggle=alert(1)>x</details>", "<div style='background:url(" + alert + ")'>x</div>", "<div style=width:expression(alert(1))>x</div>",
	"<img src=\"x` `<script>alert(1)</script>\"` `>", "<img alt=\"--><script>alert(1)</script>\">", "<img alt='`onerror=alert(1)`' src=x>",
	// URLs
	"<a href=" + alert + ">x</a>", "<a href=JaVaScRiPt:alert(1)>x</a>", "<a href=' \x01javascript:alert(1)'>x</a>", "<a href='java\tscript:alert(1)'>x</a>",
	"<a href='java\nscript:alert(1)'>x</a>", "<a href=&#106;avascript&colon;alert(1)>x</a>", "<a href=&#x6A;&#x61;vascript&#58;alert(1)>x</a>",
	"<a href='java&Tab;script:alert(1)'>x</a>", "<a href='java&NewLine;script&colon;alert(1)'>x</a>", "<a href=&#0000106avascript:alert(1)>x</a>",
	"<a href=vbscript:x>x</a>", "<a href=data:text/html,<script>alert(1)</script>>x</a>", "<a href=blob:x>x</a>", "<a href=file:///etc/passwd>x</a>",
	"<a href=\u00a0javascript:alert(1)>x</a>", "<a xlink:href=" + alert + ">x</a>", "<img src=" + alert + ">", "<img srcset='" + alert + " 1x'>",
	"<blockquote cite=" + alert + ">x</blockquote>", "<area href=" + alert + ">", "<a href=/ ping=//evil.example>x</a>", "<table background=" + alert + "><td>x</table>",
	// frames
	"<iframe src=" + alert + "></iframe>", "<iframe srcdoc='<script>alert(1)</script>'></iframe>", "<iframe src=https://pics.example.org/ srcdoc='&lt;script>alert(1)&lt;/script>'></iframe>",
	"<iframe src=//www.tube.example.com/></iframe>", `<iframe src="https:\\www.tube.example.com/"></iframe>`, `<iframe src="https://evil.example\@www.tube.example.com/"></iframe>`,
	`<iframe src="https://evil.example\.tube.example.com/"></iframe>`, "<iframe src='https://www.tu\tbe.example.com/'></iframe>", "<iframe src=' https://www.tube.example.com/'></iframe>",
	"<iframe src=https://evil.example/></iframe>", "<iframe src=https://www.tube.example.com.evil.example/></iframe>", "<iframe src=https://eviltube.example.com.evil/></iframe>",
	"<iframe src=https://www.tube.example.com@evil.example/></iframe>", "<iframe src=https://a@www.tube.example.com/></iframe>", "<iframe src=http://www.tube.example.com/></iframe>",
	"<iframe src=https://www.tube.example.com:8443/></iframe>", "<iframe src=data:text/html,x></iframe>", "<iframe src=about:srcdoc></iframe>", "<iframe src=blob:https://www.tube.example.com/x></iframe>",
	"<iframe src=https://evil.example/ src=https://www.tube.example.com/></iframe>", "<iframe></iframe>", "<iframe src></iframe>", "<iframe src=/x></iframe>",
	"<iframe src=https:www.tube.example.com/></iframe>", "<iframe src=https:///www.tube.example.com/></iframe>", "<iframe src=https://127.0.0.1/></iframe>", "<iframe src=https://[::1]/></iframe>",
	"<iframe src=https://example.com/></iframe>", "<iframe name=x onload=alert(1) sandbox='allow-top-navigation' src=https://pics.example.org/><script>alert(1)</script></iframe>",
	"<iframe src=https://evil.example%2f.tube.example.com/></iframe>", "<iframe src=https://evil.example%00.tube.example.com/></iframe>", "<iframe src=https://evil.example&#x3002;tube.example.com/></iframe>",
	// HTML that is parsed differently the second time
	"<svg><script>alert(1)</script></svg>", "<svg onload=alert(1)>", "<svg><a xlink:href=" + alert + "><text y=9>x</text></a></svg>", "<svg><animate onbegin=alert(1) attributeName=x>",
	"<svg><style><img src=x onerror=alert(1)></style></svg>", "<svg></p><style><a id=\"</style><img src=1 onerror=alert(1)>\">", "<svg><foreignObject><iframe src=" + alert + ">",
	"<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">", "<math href=" + alert + ">x</math>",
	"<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>", "<math><annotation-xml encoding=text/html><img src=x onerror=alert(1)></annotation-xml></math>",
	"<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">", "<noembed><img src=x onerror=alert(1)></noembed>", "<noframes><img src=x onerror=alert(1)></noframes>",
	"<xmp><p title=\"</xmp><img src=x onerror=alert(1)>\">", "<title><a id=\"</title><img src=x onerror=alert(1)>\"></title>", "<textarea><p title=\"</textarea><img src=x onerror=alert(1)>\">",
	"<style><!--</style><script>alert(1)//--></script>", "<!--><img src=x onerror=alert(1)>-->", "<!--<img src=\"--><img src=x onerror=alert(1)//\">", "<![CDATA[<img src=x onerror=alert(1)>]]>",
	"<?xml <img src=x onerror=alert(1)>?>", "<!DOCTYPE x [<!ENTITY y '<script>alert(1)</script>'>]>", "<plaintext><img src=x onerror=alert(1)>", "<img src=x \x00onerror=alert(1)>", "<\x00script>alert(1)</script>",
	"<p><table><a href=/><tr><a href=/><script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;", "\u003cscript\u003ealert(1)\u003c/script\u003e", "<a href=\"&quot;&gt;&lt;img src=x onerror=alert(1)&gt;\">x</a>",
}

// threats.md 50: no script of a provider's HTML or of a body runs in the page that shows it.
func TestNothingOfABodyOrAnEmbedRuns(t *testing.T) {
	for _, vector := range vectors {
		w := newService()
		w.says(rich("shown " + vector))
		got := w.resolver(t).Resolve(t.Context(), "<p>"+one+"</p>")
		wantHarmless(t, "provider", vector, got)
		if !strings.Contains(got, "shown") {
			t.Errorf("of the provider's %q nothing is there: %s", vector, got)
		}

		w = newService()
		got = w.resolver(t).Resolve(t.Context(), "shown "+vector+"\n<p>"+one+"</p>")
		wantHarmless(t, "body", vector, got)
		if !strings.Contains(got, "shown") {
			t.Errorf("of the body's %q nothing is there: %s", vector, got)
		}
	}
}

// threats.md 50: a frame is dropped unless its source is a known provider, for browsers too.
func TestOddFrames(t *testing.T) {
	for _, vector := range vectors {
		if !strings.HasPrefix(vector, "<iframe") || strings.Contains(vector, "sandbox") || strings.Contains(vector, "=https://example.com/") {
			continue // two frames of a known provider, which are shown without their other attributes
		}
		if got := newService().resolver(t).Resolve(t.Context(), "a"+vector+"b"); strings.Contains(got, "<iframe") || !strings.HasPrefix(got, "a") {
			t.Errorf("%s became %s", vector, got)
		}
	}
}

// wantHarmless checks HTML as a browser parses it: with scripting and without, alone and in another element.
func wantHarmless(t *testing.T, what, in, out string) {
	t.Helper()
	for _, scripting := range []bool{true, false} {
		for _, context := range []atom.Atom{atom.Body, atom.Div, atom.Td, atom.Template} {
			nodes, err := html.ParseFragmentWithOptions(strings.NewReader(out), &html.Node{Type: html.ElementNode, Data: context.String(), DataAtom: context},
				html.ParseOptionEnableScripting(scripting))
			if err != nil {
				t.Errorf("%s %q became what cannot be parsed, %q: %v", what, in, out, err)
			}
			for _, n := range nodes {
				if problem := harm(n); problem != "" {
					t.Errorf("%s: %q has %s, in\n%s", what, in, problem, out)
				}
				for d := range n.Descendants() {
					if problem := harm(d); problem != "" {
						t.Errorf("%s: %q has %s, in\n%s", what, in, problem, out)
					}
				}
			}
		}
	}
}

// shownElements is the elements that the sanitiser may return.
var shownElements = strings.Fields(`a abbr acronym area article aside b bdi bdo blockquote br caption cite code col colgroup dd del details dfn div dl dt em
	figcaption figure h1 h2 h3 h4 h5 h6 hgroup hr i iframe img ins kbd li map mark meter ol p pre progress q rp rt ruby s samp section small span strike
	strong sub summary sup table tbody td tfoot th thead time tr tt u ul var wbr`)

// shownAttributes is the attributes that the sanitiser may return. The values of some are URLs.
var shownAttributes = strings.Fields(`abbr align allowfullscreen alt cite class colspan coords datetime dir headers height high href id lang loading low max min
	nowrap name open optimum referrerpolicy rel rowspan sandbox scope shape span src start summary target title type usemap valign value width`)

// harm returns a description of what is harmful in an element, or "".
func harm(n *html.Node) string {
	if n.Type == html.TextNode {
		return ""
	}
	if n.Type != html.ElementNode || n.Namespace != "" || !slices.Contains(shownElements, n.Data) {
		return "the node " + n.Data
	}
	for _, a := range n.Attr {
		if !slices.Contains(shownAttributes, a.Key) || a.Namespace != "" {
			return "the attribute " + a.Key
		}
		if a.Key == "href" || a.Key == "src" || a.Key == "cite" {
			if u, err := url.Parse(a.Val); err != nil || !slices.Contains([]string{"", "http", "https", "mailto"}, u.Scheme) {
				return "the URL " + a.Val
			}
		}
		if a.Key == "class" && !strings.HasPrefix(a.Val, "language-") {
			return "the class " + a.Val
		}
		if a.Key == "rel" && a.Val != "nofollow noopener" {
			return "the relation " + a.Val
		}
	}
	if n.Data == "iframe" {
		return badFrame(n)
	}
	return ""
}

func badFrame(n *html.Node) string {
	values := map[string]string{}
	for _, a := range n.Attr {
		if _, twice := values[a.Key]; twice {
			return "two of " + a.Key
		}
		values[a.Key] = a.Val
	}
	u, err := url.Parse(values["src"])
	switch host := u.Hostname(); {
	case err != nil || u.Scheme != "https" || u.User != nil || u.Port() != "" || strings.ContainsAny(values["src"], "\\ \t\r\n") || !strings.HasPrefix(values["src"], "https://"):
		return "the frame of " + values["src"]
	case host != "example.com" && host != "pics.example.org" && host != "example.net" && host != "example.org" &&
		!strings.HasSuffix(host, ".example.com") && !strings.HasSuffix(host, ".example.net") && !strings.HasSuffix(host, ".example.org"):
		return "the frame of the host " + host
	case values["sandbox"] != "allow-scripts allow-same-origin allow-popups allow-presentation" || values["loading"] != "lazy" || n.FirstChild != nil:
		return "a frame that may do more than it should"
	}
	return ""
}

// For any body and any provider's HTML, the result is harmless, and resolving it again does not change it.
func FuzzResolve(f *testing.F) {
	for _, vector := range vectors {
		f.Add(vector, vector)
	}
	f.Add("<p>"+one+"</p>", `<iframe src="https://www.tube.example.com/e"></iframe>`)
	f.Add("a<br>"+one+"\n<b><table><p>"+two, "</div><table><a href=/><p><b>")
	f.Fuzz(func(t *testing.T, body, provider string) {
		w := newService()
		w.says(rich(provider))
		r := w.resolver(t)
		plain := r.Resolve(t.Context(), body)
		wantHarmless(t, "body", body, plain)
		resolved := r.Resolve(t.Context(), "<p>"+one+"</p>"+body)
		wantHarmless(t, "both", body+" and "+provider, resolved)
		w.says(`{"type":"link"}`)
		if again := w.resolver(t).Resolve(t.Context(), resolved); again != resolved {
			t.Errorf("%q became %q, and that became %q", body, resolved, again)
		}
	})
}

// For any body, the result contains each word and each URL as often as the body does.
func TestRandomBodies(t *testing.T) {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
		one, two, link(pic), link(two), " ", "\n", "\n  ", "\t", "&nbsp;", "<br>", "word", "<b>bold</b>", "<p>", "</p>", `<p dir="ltr">`, "<div>", "</div>",
		"<ul><li>", "</li></ul>", "<figure>", "</figure>", "<h2>", "</h2>", "<i>", "</i>", "<pre>", "</pre>", "<blockquote>", "</blockquote>", "<hr>", "<table><tr><td>", "</table>",
	}), 0, 60)
	r := newService().resolver(t)
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(pieces.Draw(t, "pieces"), "")
		got := r.Resolve(t.Context(), body)
		for _, text := range []string{"word", "bold", one, two, pic} { // a link with its URL as text counts once
			want := strings.Count(strings.NewReplacer(link(two), two, link(pic), pic).Replace(body), text)
			if n := strings.Count(strings.NewReplacer(relLink(two), two, relLink(pic), pic).Replace(got), text); n != want {
				t.Errorf("%q became %q, in which %q is %d times", body, got, text, n)
			}
		}
	})
}

// relLink returns a link as the sanitiser writes it.
func relLink(url string) string {
	return `<a href="` + url + `" rel="nofollow noopener">` + url + `</a>`
}
