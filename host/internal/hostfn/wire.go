package hostfn

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlpath"
)

// exchanging sends the token requests of a call.
type exchanging struct {
	*cacheUse
	*grantUse
	// tokenRequests counts the calls of TokenRequest and Exchange, whether or not a request was sent.
	tokenRequests int
	// urlReference is the URL of the last exchange as the guest has it, with references, and urlField the field that it is from.
	urlReference, urlField string
	// place is the place of the last exchange, see placeOf.
	place string
}

// wire is a request of a guest to a token endpoint.
type wire struct {
	contract.Exchange
	// function is the host function, for errors.
	function string
	// contentType is formType, jsonType, or "" if there is no body.
	contentType string
	// sink is the sink that sealed values must have.
	sink seal.Sinks
}

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded" // of HTML forms
)

// wire checks the combination of an exchange's members.
func (c *exchanging) wire(request *contract.Exchange) *wire {
	w := &wire{Exchange: *request, function: contract.UserExchange}
	w.Method = cmp.Or(w.Method, http.MethodPost)
	switch w.Method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		c.endf(StagePlugin, "the request of exchange: method is GET, POST, PUT, PATCH or DELETE")
	}
	switch {
	case w.JSON != nil && len(w.Form) > 0:
		c.endf(StagePlugin, "the request of exchange has both form and json, and a request has one body")
	case w.JSON != nil:
		w.contentType = jsonType
	case len(w.Form) > 0:
		w.contentType = formType
	}
	if w.Method == http.MethodGet && w.contentType != "" {
		c.endf(StagePlugin, "the request of exchange: a GET has no body")
	}
	return w
}

// outgoing checks a request, puts the sealed values in, and returns it as an HTTP request.
func (c *exchanging) outgoing(w *wire) *http.Request {
	target := c.target(w)
	c.explainExchange(w)
	body := []byte(c.encoded(w, "form", w.Form))
	if w.contentType == jsonType {
		body = c.jsonBody(w)
	}
	outgoing, err := http.NewRequestWithContext(c.ctx, w.Method, target, bytes.NewReader(body))
	if err != nil {
		c.end(StageConfig, errNoURL)
	}
	outgoing.URL.RawQuery = joinMembers(outgoing.URL.RawQuery, c.encoded(w, "query", w.Query))
	outgoing.Header.Set("Accept", jsonType) // the guest's own headers replace these two
	outgoing.Header.Set("User-Agent", c.plan.UserAgent)
	names := map[string]bool{"Content-Type": true}
	where := "the headers of " + w.function
	for _, pair := range w.Headers {
		name, value, label := c.header(where, pair, w.sink)
		if label.sealed && len(w.Headers) > 1 {
			c.endf(StagePlugin, "%s: there are several, and the name of one is sealed: %s", where, aloneWhenSealed)
		}
		canonical := http.CanonicalHeaderKey(name)
		if names[canonical] {
			c.endf(StagePlugin, "%s: %s is there twice, or is the host's to set", where, label)
		}
		names[canonical] = true
		outgoing.Header.Set(name, value)
	}
	if w.contentType != "" {
		outgoing.Header.Set("Content-Type", w.contentType)
	}
	return outgoing
}

// target returns the URL of a request. It ends the call unless that is a URL of the configuration.
func (c *exchanging) target(w *wire) string {
	target, _ := c.unseal("the URL of "+w.function, w.URL, seal.Token)
	// URLs are compared with their references, and not with their values put in. Otherwise, a guest could use a URL of
	// its own to check a guess of the secret in it.
	if !slices.Contains(c.urls, w.URL) {
		c.readURLs()
	}
	if !slices.Contains(c.urls, w.URL) {
		c.endf(StagePlugin, "%s may only go to a URL that is a field of the configuration, as config_get returned it in this call", w.function)
	}
	i := slices.IndexFunc(c.rendered, func(r renderedField) bool {
		return r.value == w.URL && r.ok && c.plan.Fields[r.name].Kind == abi.KindURL
	})
	c.urlField, c.urlReference = c.rendered[i].name, w.URL
	u, err := url.Parse(target)
	if err != nil {
		c.end(StageConfig, errNoURL)
	}
	w.sink = c.exchangeSink(u)
	c.place = c.placeOf(w)
	if len(w.Path) == 0 {
		return target
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	for _, segment := range w.Path {
		segment, _ = c.unseal("the path of "+w.function, segment, w.sink)
		if segment == "" || segment == "." || segment == ".." {
			c.endf(StagePlugin, `the path of %s has a segment that is empty, "." or ".."`, w.function)
		}
		path += "/" + urlpath.Percent(segment)
	}
	u.RawPath = path
	u.Path, _ = url.PathUnescape(path) // it is escaped
	return u.String()
}

var errNoURL = errors.New("the token URL is not a URL")

// encoded returns pairs as application/x-www-form-urlencoded.
func (c *exchanging) encoded(w *wire, what string, pairs []abi.Pair) string {
	where := "the " + what + " of " + w.function
	members := make([]string, len(pairs))
	for i, pair := range pairs {
		name, _ := c.unseal(where, pair.Name, w.sink)
		value, _ := c.unseal(where, pair.Value, w.sink)
		members[i] = url.QueryEscape(name) + "=" + url.QueryEscape(value)
	}
	return strings.Join(members, "&")
}

// jsonBody returns the JSON of a request, with the sealed values put into its strings.
func (c *exchanging) jsonBody(w *wire) []byte {
	where := "the json of " + w.function
	return c.marshal(c.mapStrings(where, w.JSON, func(text string) (string, error) {
		c.notRaw(where, text)
		out, _ := c.unseal(where, text, w.sink)
		return strings.ToValidUTF8(out, "\uFFFD"), nil
	}))
}

// exchangeSink returns the sink that sealed values in a request to u must have. The tokens of the user and of identities have no sink but
// Listed, so they go only to hosts that the operator lists for each of them.
func (c *exchanging) exchangeSink(u *url.URL) seal.Sinks {
	if !c.plan.Names.Listed() {
		return seal.Token
	}
	c.exchangeHost = printable.Text(c.Scrub(u.Host), 256)
	if c.unlisted = c.plan.Unlisted(u); c.unlisted == "" {
		return seal.Listed
	}
	return seal.Token
}

// placeOf returns the field and the URL of a request, with its path and query, as the guest has them: each sealed value has the same
// mark. Its text is in the partition or behind an entry that was read. If it were in the place, a guest could compare it with a
// guess, by whether the endpoint is asked about that.
func (c *exchanging) placeOf(w *wire) string {
	var place strings.Builder
	place.WriteString(c.urlField)
	for _, text := range slices.Concat([]string{w.URL}, w.Path, texts(w.Query)) {
		place.WriteByte(0)
		pieces, _ := c.sealed.Split(text) // outgoing has opened it
		for _, piece := range pieces {
			place.WriteString(piece.Text)
			if piece.Sealed {
				place.WriteByte(1)
			}
		}
	}
	return place.String()
}

// explainExchange records a request, if the call is explained.
func (c *exchanging) explainExchange(w *wire) {
	if !c.explains() {
		return
	}
	e := &view.Exchange{Method: w.Method, URL: c.masked(w.URL), Headers: c.maskedPairs(w.Headers), Body: c.maskedParameters(w.Form)}
	for _, segment := range w.Path {
		e.URL = strings.TrimSuffix(e.URL, "/") + "/" + c.masked(segment)
	}
	if query := c.maskedParameters(w.Query); query != "" {
		separator := "?"
		if strings.Contains(e.URL, "?") {
			separator = "&"
		}
		e.URL += separator + query
	}
	if w.contentType == jsonType {
		e.Body = c.masked(string(c.marshal(w.JSON)))
	}
	c.Steps = append(c.Steps, view.Step{Exchange: e})
}

// shownHost returns the host of an exchange, or "" if a sealed value is a part of it. Any field may take its value from a secret. The
// list's host stands for that of a tenant.
func (c *exchanging) shownHost(r *http.Request) string {
	if host := c.plan.HostOf(r.URL); host != "" {
		return host
	}
	if u, err := url.Parse(c.urlReference); err != nil || u.Host != r.URL.Host {
		return ""
	}
	return r.URL.Host
}

func texts(pairs []abi.Pair) (list []string) {
	for _, pair := range pairs {
		list = append(list, pair.Name, pair.Value)
	}
	return list
}
