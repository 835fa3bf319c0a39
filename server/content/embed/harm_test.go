package embed_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"pgregory.net/rapid"
)

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
		if second := w.resolver(t).Resolve(t.Context(), resolved); second != resolved {
			t.Errorf("%q became %q, and that became %q", body, resolved, second)
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
