package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/difference"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/operate/records"
)

type list[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"The cursor of the next page. Without it, this is the last one."`
	Note  string `json:"note,omitempty" doc:"Says why these are figures of one process alone."`
}

// Page is the place in a list.
type Page struct {
	Cursor string `query:"cursor" maxLength:"200" doc:"The next of the page before."`
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"100"`
}

// paged returns a page of a list in memory, whose cursor is an offset.
func paged[A, B any](p Page, all []A, note string, item func(A) B) (list[B], error) {
	l := list[B]{Items: []B{}, Note: note}
	from, err := strconv.Atoi(cmp.Or(p.Cursor, "0"))
	if err != nil || from < 0 {
		return l, records.ErrCursor
	}
	from = min(from, len(all))
	to := min(from+p.Limit, len(all))
	for _, a := range all[from:to] {
		l.Items = append(l.Items, item(a))
	}
	if to < len(all) {
		l.Next = strconv.Itoa(to)
	}
	return l, nil
}

type node struct {
	Node         string                `json:"node"`
	Version      string                `json:"version,omitempty"`
	SHA256       string                `json:"sha256,omitempty" doc:"The digest of the file in use."`
	Differences  []activity.Difference `json:"differences,omitempty" doc:"What the file defines otherwise than the file of most nodes."`
	Started      time.Time             `json:"started,omitzero"`
	Reported     time.Time             `json:"reported"`
	ClockSeconds float64               `json:"clock_seconds" doc:"How far its clock is ahead of that of the store."`
	Store        string                `json:"store,omitempty"`
	Minute       activity.Tally        `json:"minute"`
}

func (s *server) nodes(ctx context.Context, in *Page) (list[node], error) {
	view, note := s.view(ctx)
	return paged(*in, view.Reports, note, func(r *activity.Report) node {
		return node{r.Node, r.Version, r.SHA256, r.Differences, r.StartTime(), r.Time, r.Offset.Seconds(), r.Store, r.Minute()}
	})
}

// cause has the failures with the same cause.
type cause struct {
	ID          string    `json:"id"`
	Connector   string    `json:"connector"`
	Stage       string    `json:"stage"`
	Problem     string    `json:"problem,omitempty"`
	Status      int       `json:"status,omitempty" doc:"The status with which the API answered."`
	Code        string    `json:"code,omitempty"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
	Total       uint64    `json:"total"`
	QuarterHour uint64    `json:"quarter_hour" doc:"The number of the last 15 minutes."`
	Day         uint64    `json:"day"`
	Users       int       `json:"users"`
	MoreUsers   bool      `json:"more_users,omitempty" doc:"There are more than users."`
	Tenants     []string  `json:"tenants,omitempty" doc:"Some tenants. It needs the right people."`
	AllTenants  int       `json:"all_tenants" doc:"The number of tenants, 64 at most."`
	Nodes       []string  `json:"nodes,omitempty"`
	Cause       string    `json:"cause"`
	Remedy      string    `json:"remedy,omitempty" doc:"What to do about it."`
	Requests    []string  `json:"requests" doc:"The request ids of the last ones, the newest first."`
}

func causeOf(g *activity.Group) cause {
	c := cause{
		ID: g.ID, Connector: g.Connector, First: g.First, Last: g.Last, Total: g.Total, QuarterHour: g.Lately(), Day: g.Day(),
		Users: len(g.Users.Hashes), MoreUsers: g.Users.More, Tenants: g.Tenants, AllTenants: len(g.AllTenants.Hashes), Nodes: g.Nodes, Requests: []string{},
	}
	for _, f := range g.Examples {
		c.Requests = append(c.Requests, f.RequestID)
	}
	if len(g.Examples) > 0 {
		f := g.Examples[0]
		c.Stage, c.Problem, c.Status, c.Code = f.Stage, f.Problem, f.UpstreamStatus, f.Code // those of all in the group
		c.Cause, c.Remedy = f.Cause, g.Remedy()
	}
	return c
}

// view returns what the operator may see of all nodes.
func (s *server) view(ctx context.Context) (*activity.View, string) {
	view, note := s.View(ctx)
	view.Hide(login.OperatorOf(ctx).Sees)
	return view, note
}

type connectorState struct {
	Permalink   string         `json:"permalink"`
	Name        string         `json:"name"`
	Type        string         `json:"type" doc:"The auth type."`
	State       string         `json:"state" enum:"failing,some fail,slow,works again,users to connect,working,quiet"`
	Since       time.Time      `json:"since,omitzero" doc:"When it began to fail, or to work again."`
	Minute      activity.Tally `json:"minute"`
	QuarterHour activity.Tally `json:"quarter_hour"`
	HalfSeconds float64        `json:"half_seconds" doc:"The time within which half of the requests were answered."`
	P99Seconds  float64        `json:"p99_seconds" doc:"The time within which 99 % of the requests were answered."`
	Causes      []cause        `json:"causes" doc:"The causes of failures, the newest first. A list has three of each connector."`
	Nodes       []string       `json:"nodes,omitempty" doc:"The nodes on which requests failed in the last minute."`
	OtherNodes  []string       `json:"other_nodes,omitempty" doc:"The nodes whose file defines the connector otherwise than that of most nodes."`
	Timeout     float64        `json:"timeout_seconds,omitempty"`
	Expires     time.Time      `json:"token_expires,omitzero" doc:"The end of the token that was used last."`
	Closed      time.Time      `json:"token_endpoint_closed_until,omitzero" doc:"Until when the token endpoint, which refused, is not asked."`
	Origin      string         `json:"origin"`
	Methods     []string       `json:"methods,omitempty"`
	Paths       []string       `json:"paths,omitempty"`
	Certificate time.Time      `json:"certificate_expires,omitzero" doc:"The end of the client certificate that was needed last."`
	Secrets     []string       `json:"secrets,omitempty" doc:"The names of its secrets."`
}

// row is a connector with its figures, and its place in a list.
type row struct {
	*gateway.Connector
	*activity.Summary
	order     int
	permalink string
}

func (r row) state(causes int) connectorState {
	d := r.Definition()
	groups, _ := paged(Page{Limit: causes}, r.Groups, "", causeOf)
	return connectorState{Permalink: d.Permalink, Name: d.Name, Type: d.Auth.Type(), State: string(r.State), Since: r.Since, Minute: r.Minute, QuarterHour: r.Lately, HalfSeconds: r.Half.Seconds(), P99Seconds: r.P99.Seconds(), Expires: r.Expires, Closed: r.Closed, Origin: r.BaseURL().Scheme + "://" + r.BaseURL().Host, Causes: groups.Items, Nodes: r.Nodes}
}

// severity has the states from the one that needs a look first.
var severity = []activity.State{activity.StateFailing, activity.StateSomeFail, activity.StateSlow, activity.StateWorksAgain, activity.StateToConnect, activity.StateWorking, activity.StateQuiet}

func (s *server) connectors(ctx context.Context, in *struct {
	Page
	Show string `query:"show" enum:"trouble,all,quiet" default:"all"`
	Q    string `query:"q" doc:"A part of the permalink, the name or the URL."`
	Type string `query:"type" doc:"An auth type."`
	Sort string `query:"sort" enum:"trouble,name,requests,failures,p99" default:"trouble"`
},
) (list[connectorState], error) {
	const shownCauses = 3
	view, note := s.view(ctx)
	var rows []row
	for _, c := range s.Set().Connectors {
		d := c.Definition()
		r := row{Connector: c, Summary: view.Summary(d.Permalink), permalink: d.Permalink}
		rank := slices.Index(severity, r.State)
		r.order = map[string]int{"trouble": rank, "requests": -int(r.Lately.Requests), "failures": -int(r.Lately.Failed), "p99": -int(r.P99)}[in.Sort]
		if (in.Show != "trouble" || rank <= 2) && (in.Show != "quiet" || r.State == activity.StateQuiet) && (in.Type == "" || in.Type == d.Auth.Type()) &&
			strings.Contains(strings.ToLower(d.Permalink+"\n"+d.Name+"\n"+c.BaseURL().String()), strings.ToLower(in.Q)) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.permalink, b.permalink))
	})
	return paged(in.Page, rows, note, func(r row) connectorState { return r.state(shownCauses) })
}

func (s *server) connector(ctx context.Context, in *struct {
	Permalink string `path:"permalink"`
},
) (state connectorState, err error) {
	c, err := s.Set().Find(in.Permalink)
	if err != nil {
		return state, refuse(http.StatusNotFound, "%s", host.Printable(err.Error()))
	}
	view, _ := s.view(ctx)
	r, d := row{Connector: c, Summary: view.Summary(in.Permalink)}, c.Definition()
	state = r.state(len(r.Groups))
	state.Methods, state.Paths, state.Secrets, state.Timeout = d.Methods, d.Paths, c.Secrets(), d.Timeout.Seconds()
	state.OtherNodes, _ = view.Different(in.Permalink)
	if certificate := c.Upstream().LastClientCertificate(); certificate != nil {
		state.Certificate = certificate.NotAfter
	}
	return state, nil
}

func (s *server) failures(ctx context.Context, in *struct {
	Page
	Connector string `query:"connector"`
},
) (list[cause], error) {
	view, note := s.view(ctx)
	groups := view.Groups()
	if in.Connector != "" {
		groups = view.Summary(in.Connector).Groups
	}
	return paged(in.Page, groups, note, causeOf)
}

func (s *server) request(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (public activity.Failure, err error) {
	found, err := s.Find(ctx, in.ID)
	switch {
	case err != nil:
		return public, err
	case found == nil:
		_, note := s.View(ctx)
		return public, refuse(http.StatusNotFound, "%s", activity.NotFound(in.ID, note))
	}
	public = *found.Hide(login.OperatorOf(ctx).Sees)
	public.Way = append([]activity.Step{}, public.Way...) // no list is null
	return public, nil
}

// Configuration says which file is in use, and what waits.
type Configuration struct {
	SHA256      string               `json:"sha256"`
	Used        time.Time            `json:"used" doc:"Since when it is in use."`
	RefusedTime time.Time            `json:"refused,omitzero" doc:"When the file on disk was refused first."`
	Problems    []string             `json:"problems,omitempty" doc:"What is wrong with the file on disk."`
	Waiting     *difference.Document `json:"waiting,omitempty" doc:"What would be different with the file on disk."`
}

func (s *server) configuration(context.Context, *struct{}) (Configuration, error) {
	return s.Configuration(), nil
}
