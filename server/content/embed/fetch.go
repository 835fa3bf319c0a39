package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/server/internal/codings"
)

const (
	maxFetches = 64              // concurrent fetches of all documents
	maxAnswer  = 256 << 10       // bytes of a provider's answer
	maxHTML    = 64 << 10        // bytes of an embed, before and after it is sanitised: sanitising makes some HTML longer
	fetchTime  = 3 * time.Second // for a fetch, including the wait for its turn
	failureAge = time.Minute     // for which the cache keeps a failure
)

// answer is a provider's response (oEmbed, section 2.3.4). Many providers write sizes and ages as strings.
type answer struct {
	Type     string `json:"type"`
	HTML     string `json:"html"`
	URL      string `json:"url"`
	Title    string `json:"title"`
	Width    number `json:"width"`
	Height   number `json:"height"`
	CacheAge number `json:"cache_age"`
}

// number is a positive integer, in JSON a number or a string. Any other value becomes 0, which means none.
type number int64

// UnmarshalJSON implements [json.Unmarshaler].
func (n *number) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*n = 0
	if err == nil && value > 0 {
		*n = number(value)
	}
	return nil
}

// fetch asks the provider of a URL for its embed, caches the result and returns it. It returns "" if there is none.
func (r *Resolver) fetch(ctx context.Context, c candidate) string {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	if r.fetches.Acquire(ctx, 1) != nil {
		return "" // the provider was not asked, so this is not cached as its failure
	}
	defer r.fetches.Release(1)
	a, err := r.ask(ctx, c)
	var embed string
	if err == nil {
		embed, err = r.show(ctx, a)
	}
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // it has the URL, and the log must not contain parts of a document
			err = failed.Err
		}
		r.logger.LogAttrs(ctx, slog.LevelInfo, "a URL is not embedded", slog.String("provider", c.endpoint.provider), slog.Any("error", err))
		r.cache.put(c.url, "", failureAge)
		return ""
	}
	r.cache.put(c.url, embed, a.age())
	return embed
}

func (r *Resolver) ask(ctx context.Context, c candidate) (*answer, error) {
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {"Keywright (oEmbed)"}}
	request := &http.Request{Method: http.MethodGet, URL: c.endpoint.requestURL(c.url), Header: header}
	response, err := answers.Final(r.client.Do(request.WithContext(ctx)))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the provider answers %d", response.StatusCode)
	}
	if media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); !jsonType.MatchString(media) {
		return nil, errors.New("the provider's answer is not JSON by its Content-Type")
	}
	body, err := answers.Read(response, codings.Further(), maxAnswer)
	a := &answer{}
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the provider's answer has more than %d bytes", maxAnswer)
	case json.Unmarshal(body, a) != nil:
		return nil, errors.New("the provider's answer is not JSON as oEmbed has it")
	}
	return a, nil
}

// jsonType matches the media types of JSON. Some providers use application/json+oembed.
var jsonType = regexp.MustCompile(`^(application|text)/([^/]+\+)?json(\+oembed)?$`)

// checkedTransport refuses an answer that redirects to what is no URL, since the error of net/http quotes its Location, which may
// contain the requested URL.
type checkedTransport struct{ http.RoundTripper }

func (t checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := answers.Final(t.RoundTripper.RoundTrip(r))
	if err != nil {
		return nil, err
	}
	if _, err := r.URL.Parse(response.Header.Get("Location")); err != nil {
		return nil, errors.Join(errors.New("the provider redirects to what is no URL"), response.Body.Close())
	}
	return response, nil
}

// age returns how long the cache keeps an answer: the age that it states, within bounds, or an hour.
func (a *answer) age() time.Duration {
	const minAge, defaultAge, maxAge = 5 * time.Minute, time.Hour, 24 * time.Hour
	if a.CacheAge == 0 {
		return defaultAge
	}
	return max(minAge, time.Duration(min(a.CacheAge, number(maxAge/time.Second)))*time.Second)
}

// show returns the sanitised HTML of an answer. It returns an error if nothing visible is left.
func (r *Resolver) show(ctx context.Context, a *answer) (string, error) {
	var source string
	switch a.Type {
	case "rich", "video":
		source = a.HTML
	case "photo":
		source = photo(a)
	default:
		return "", errors.New("the provider has neither rich text nor a video nor a photo")
	}
	if len(source) > maxHTML {
		return "", fmt.Errorf("the provider's HTML has more than %d bytes", maxHTML)
	}
	cleaned, ok := r.clean(ctx, source)
	if !ok || len(cleaned) > maxHTML {
		return "", errors.New("the provider's HTML cannot be sanitised")
	}
	root, err := parse(strings.NewReader(cleaned))
	if err != nil || !hasVisibleContent(root) {
		return "", errors.New("the provider's HTML shows nothing once it is sanitised")
	}
	return cleaned, nil
}

// photo returns the HTML of a photo, or "" if its URL is not an https URL.
func photo(a *answer) string {
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return ""
	}
	size := ""
	if a.Width > 0 && a.Height > 0 {
		size = fmt.Sprintf(` width="%d" height="%d"`, a.Width, a.Height)
	}
	return fmt.Sprintf(`<img src="%s" alt="%s"%s/>`, html.EscapeString(a.URL), html.EscapeString(a.Title), size)
}

func hasVisibleContent(n *html.Node) bool {
	for d := range n.Descendants() {
		if d.Type == html.TextNode && !blank(d) || d.DataAtom == atom.Img || d.DataAtom == atom.Iframe {
			return true
		}
	}
	return false
}
