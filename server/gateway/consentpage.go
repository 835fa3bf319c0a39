package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/keywright/keywright/host"
)

// page is the content of a page under /connect. It has no script, and nothing that came with the query.
type page struct {
	Style template.CSS
	// User is the user whose connections the page lists, and List has them.
	User string
	List []connection
	// Ask is the name of the connector that the user is asked about, and Path is the link that begins the consent.
	Ask, Path string
	// Done is the name of the connector to which the user has connected.
	Done string
	// Problem says what is wrong. RequestID is the id of the request in the log.
	Problem, RequestID string
	// Back is the URL of the link to which the user can go on.
	Back string
}

// connection is a connection of a user, in the JSON of GET /connect and on its page.
type connection struct {
	Connector string         `json:"connector"`
	Name      string         `json:"name"`
	Condition host.Condition `json:"condition"`
	// Age is the time since the grant was renewed, redeemed, sent without an answer, lost or refused last.
	Age int64 `json:"age_seconds"`
}

// Since returns the age in words, or "" if it is less than a minute.
func (c connection) Since() string {
	for _, unit := range []struct {
		name    string
		seconds int64
	}{{"day", 24 * 60 * 60}, {"hour", 60 * 60}, {"minute", 60}} {
		switch n := c.Age / unit.seconds; {
		case n > 1:
			return fmt.Sprintf("%d %ss", n, unit.name)
		case n == 1:
			return "1 " + unit.name
		}
	}
	return ""
}

//go:embed consent.html
var consentHTML string

//go:embed consent.css
var consentCSS string

var consentPage = template.Must(template.New("page").Parse(consentHTML))

// pagePolicy allows the style of the page, and forms and links to the gateway. No other site may show the page in a frame.
var pagePolicy = func() string {
	digest := sha256.Sum256([]byte(consentCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// render returns a page, and sets the headers for it.
func (p *page) render(header http.Header) []byte {
	p.Style = template.CSS(consentCSS) //nolint:gosec // it is part of this program
	var b bytes.Buffer
	if err := consentPage.Execute(&b, p); err != nil {
		b.Reset()
		b.WriteString(http.StatusText(http.StatusInternalServerError))
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Frame-Options", "DENY")
	return b.Bytes()
}

// show writes a page.
func (v *visit) show(status int, p *page) error {
	v.write(v.w, status, p.render(v.w.Header()))
	return nil
}

// json writes an answer in JSON.
func (v *visit) json(document any) error {
	body, _ := json.Marshal(document) // encoding texts and numbers cannot fail
	v.w.Header().Set("Content-Type", "application/json")
	v.write(v.w, http.StatusOK, body)
	return nil
}

// pageOf returns the page for a problem, and sets the headers for it.
func (c *call) pageOf(header http.Header, p *httpProblem) []byte {
	problemPage := &page{Problem: p.detail, RequestID: c.event.ID, Back: "/connect"}
	if p.status == http.StatusUnauthorized {
		problemPage.Back = ""
	}
	return problemPage.render(header)
}

// list answers with the connections of the user.
func (v *visit) list() error {
	if _, err := v.generation.crossOrigin(v.w, v.r); err != nil && !v.navigates() {
		return err
	}
	ctx, user, release, err := v.user()
	if err != nil {
		return err
	}
	defer release()
	all := []connection{}
	for permalink, connector := range v.generation.connectors {
		if !connector.consents.NeedsConsent() {
			continue
		}
		found, err := connector.consents.Connection(ctx)
		if err != nil {
			return connectionProblem(err)
		}
		all = append(all, connection{permalink, connector.definition.Name, found.Condition, int64(found.Age / time.Second)})
	}
	slices.SortFunc(all, func(a, b connection) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Connector, b.Connector))
	})
	if v.page {
		return v.show(http.StatusOK, &page{User: cmp.Or(user.Email, user.Username, user.ID), List: all, Back: v.generation.consent.ReturnTo})
	}
	return v.json(struct {
		Connections []connection `json:"connections"`
	}{all})
}
