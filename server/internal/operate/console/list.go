package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
)

// pageSize is the number of rows of a table.
const pageSize = 50

// paging says which rows of a table a page shows.
type paging struct {
	// First and Last are the numbers of the rows that are shown, from 1, and All is the number of all rows.
	First, Last, All int
	// Previous and Next are links to the neighbours, or "".
	Previous, Next string
}

// paged returns the rows of a request.
func paged[T any](r *http.Request, all []T) ([]T, paging) {
	begin, _ := strconv.Atoi(r.URL.Query().Get("after")) // what is no number is 0
	begin = max(0, min(begin, (len(all)-1)/pageSize*pageSize))
	end := min(begin+pageSize, len(all))
	p := paging{First: begin + 1, Last: end, All: len(all)}
	if begin > 0 {
		p.Previous = linkTo(r, "after", strconv.Itoa(max(0, begin-pageSize)))
	}
	if end < len(all) {
		p.Next = linkTo(r, "after", strconv.Itoa(end))
	}
	return all[begin:end], p
}

// linkTo returns the link of a request with another value of a parameter.
func linkTo(r *http.Request, name, value string) string {
	query := r.URL.Query()
	query.Del("after")
	query.Set(name, value)
	return (&url.URL{Path: r.URL.Path, RawQuery: query.Encode()}).String()
}

type connectorsView struct {
	Connectors []*entry
	paging
	// Show says which are shown: those with trouble, all, or quiet ones. Explicit is the same if the request says so.
	Show, Explicit string
	// Chips are the links to each of these.
	Chips []link
	// Query is a part of the permalink, the name or the URL. Type and File are those of each connector that is shown, or "".
	Query, Type, File string
	Sort              string
	// Types and Files are those that a filter can name, and Sorts the orders.
	Types, Files, Sorts []string
}

// entry is a connector with its figures. It asks no store.
type entry struct {
	connector                   *gateway.Connector
	Permalink, Name, Type, File string
	*activity.Summary
	// Missing reports whether a secret could not be read lately.
	Missing bool
	// Mark is the state, Class its colour, and Sign its sign.
	Mark, Class, Sign string
	// rank is the place among states, of which the worst is the first.
	rank int
	// Certificate is the client certificate that was needed last, or nil. Ends reports whether it ends in two weeks.
	Certificate *host.ClientCertificate
	Ends        bool
	// OtherNodes are those whose file defines OtherMembers otherwise than that of most nodes.
	OtherNodes, OtherMembers []string
	// Secrets are those that it names, once they were looked for.
	Secrets []secretState
}

// Good counts the requests of the last minute that did not fail.
func (e *entry) Good() uint32 { return e.Minute.Requests - e.Minute.Failed - e.Minute.Unconnected }

// Top is the group that failed last, or nil if nothing did lately.
func (e *entry) Top() *activity.Group {
	if e.Lately.Failed == 0 || len(e.Groups) == 0 {
		return nil
	}
	return e.Groups[0]
}

// Timeout is the time that the API has.
func (e *entry) Timeout() time.Duration { return e.connector.Definition().Timeout }

// marks are the states, the worst first.
var marks = []struct {
	state       activity.State
	class, sign string
}{
	{stateMissing, "bad", "▲"},
	{activity.StateFailing, "bad", "▲"},
	{activity.StateSomeFail, "warn", "◐"},
	{activity.StateSlow, "warn", "◐"},
	{stateEnds, "warn", "◐"},
	{stateOther, "warn", "◐"},
	{activity.StateWorksAgain, "good", "●"},
	{activity.StateToConnect, "soft", "◇"},
	{activity.StateWorking, "good", "●"},
	{activity.StateQuiet, "soft", "○"},
}

const (
	// stateMissing is the state of a connector of which a secret cannot be read.
	stateMissing activity.State = "secret missing"
	// stateEnds is that of a connector that has no other trouble, and whose client certificate ends soon.
	stateEnds activity.State = "certificate ends"
	// stateOther is that of a connector that was used, has no other trouble, and is not the same on all nodes.
	stateOther activity.State = "another file"
)

func (e *entry) mark() {
	state := e.State
	switch {
	case e.Missing:
		state = stateMissing
	case e.Ends && !slices.Contains([]activity.State{activity.StateFailing, activity.StateSomeFail, activity.StateSlow}, state):
		state = stateEnds
	case len(e.OtherNodes) > 0 && slices.Contains([]activity.State{activity.StateWorking, activity.StateWorksAgain, activity.StateToConnect}, state):
		state = stateOther
	}
	for i, m := range marks {
		if m.state == state {
			e.Mark, e.Class, e.Sign, e.rank = string(state), m.class, m.sign, i
		}
	}
}

func (c *Console) entryOf(s *State, connector *gateway.Connector) *entry {
	d := connector.Definition()
	e := &entry{connector: connector, Permalink: d.Permalink, Name: d.Name, Type: d.Auth.Type(), Summary: s.view.Summary(d.Permalink)}
	if name, ok := s.Set.Sources[d.Permalink]; ok {
		e.File = filepath.Base(name)
	}
	const notice = 14 * 24 * time.Hour
	if e.Certificate = connector.Upstream().LastClientCertificate(); e.Certificate != nil {
		e.Ends = e.Certificate.NotAfter.Before(c.config.Clock().Add(notice))
	}
	e.OtherNodes, e.OtherMembers = s.view.Different(d.Permalink)
	for _, name := range connector.Secrets() {
		e.Missing = e.Missing || c.missing(name)
	}
	e.mark()
	return e
}

// find looks for the secrets of the connector.
func (e *entry) find(ctx context.Context, c *Console, s *State) {
	e.Secrets = c.secretsOf(ctx, s, e.connector.Secrets())
	e.Missing = slices.ContainsFunc(e.Secrets, func(secret secretState) bool { return secret.Problem != "" })
	e.mark()
}

// orders are the orders of the connectors.
var orders = map[string]func(a, b *entry) int{
	"trouble":  func(a, b *entry) int { return cmp.Or(a.rank-b.rank, int(b.Minute.Failed)-int(a.Minute.Failed)) },
	"name":     func(a, b *entry) int { return strings.Compare(a.Permalink, b.Permalink) },
	"requests": func(a, b *entry) int { return cmp.Compare(b.Lately.Requests, a.Lately.Requests) },
	"p99":      func(a, b *entry) int { return cmp.Compare(b.P99, a.P99) },
}

func (c *Console) connectors(s *State, r *http.Request) (any, error) {
	query := r.URL.Query()
	view := &connectorsView{
		Query: strings.TrimSpace(query.Get("q")), Type: query.Get("type"), File: query.Get("file"), Explicit: query.Get("show"), Sort: query.Get("sort"),
		Sorts: []string{"trouble", "name", "requests", "p99"},
	}
	if orders[view.Sort] == nil {
		view.Sort = "trouble"
	}
	c.refresh(r.Context(), s)
	filtered := c.filter(s, view)
	view.Show = view.Explicit
	for _, name := range []string{"trouble", "all", "quiet"} {
		var chosen []*entry
		for _, e := range filtered {
			if name == "all" || name == "trouble" && (e.Class == "bad" || e.Class == "warn") || name == "quiet" && e.Mark == string(activity.StateQuiet) {
				chosen = append(chosen, e)
			}
		}
		if view.Show == "" && (name == "all" || len(chosen) > 0 && view.Query+view.Type+view.File == "") {
			view.Show = name
		}
		here := view.Show == name
		view.Chips = append(view.Chips, link{name + " " + count(len(chosen)), linkTo(r, "show", name), here})
		if !here {
			continue
		}
		slices.SortStableFunc(chosen, orders[view.Sort])
		view.Connectors, view.paging = paged(r, chosen)
		for _, e := range view.Connectors {
			e.find(r.Context(), c, s)
		}
	}
	return view, nil
}

// filter returns the connectors that a view asks for, and sets what it can ask for.
func (c *Console) filter(s *State, view *connectorsView) (all []*entry) {
	query := strings.ToLower(view.Query)
	for _, connector := range s.Set.Connectors {
		e := c.entryOf(s, connector)
		view.Types, view.Files = append(view.Types, e.Type), append(view.Files, e.File)
		if view.Type != "" && e.Type != view.Type || view.File != "" && e.File != view.File ||
			query != "" && !strings.Contains(strings.ToLower(e.Permalink+"\n"+e.Name+"\n"+connector.BaseURL().String()), query) {
			continue
		}
		all = append(all, e)
	}
	for _, list := range []*[]string{&view.Types, &view.Files} {
		slices.Sort(*list)
		*list = slices.DeleteFunc(slices.Compact(*list), func(name string) bool { return name == "" })
	}
	return all
}

// minuteBars returns the picture of the requests of the last minutes.
func minuteBars(minutes [activity.Window]activity.Tally) picture {
	var all, failed activity.Counts
	for _, m := range minutes {
		all, failed = append(all, m.Requests), append(failed, m.Failed)
	}
	return draw(all, failed)
}

// picture is a picture of counts: the paths of a small drawing.
type picture struct {
	Width int
	// Good and Bad are the paths of the columns. Those that failed are at the bottom.
	Good, Bad string
	// All and Failed are the sums.
	All, Failed uint64
}

// draw returns a picture of counts, and of those of them that failed.
func draw(all, failed activity.Counts) (p picture) {
	const height, step = 18.0, 5 // of the picture, and from a column to the next one
	p.Width = step * len(all)
	scale := height / float64(max(1, slices.Max(all)))
	for i, n := range all {
		p.All, p.Failed = p.All+uint64(n), p.Failed+uint64(failed[i])
		bad, top := 0.0, max(1.5, float64(n)*scale)
		if failed[i] > 0 {
			bad = min(top, max(1.5, float64(failed[i])*scale))
			p.Bad += fmt.Sprintf("M%d %dh4v%.3gh-4z", i*step, int(height), -bad)
		}
		if top > bad && n > 0 {
			p.Good += fmt.Sprintf("M%d %.3gh4v%.3gh-4z", i*step, height-bad, bad-top)
		}
	}
	return p
}
