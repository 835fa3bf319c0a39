package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/difference"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/operate/tenants"
)

// checkTenant returns an error unless the operator has a right for a tenant, or for all of them with "".
func checkTenant(ctx context.Context, right login.Right, tenant string) error {
	if o := login.OperatorOf(ctx); !o.AllowsIn(right, tenant) {
		return refuse(http.StatusForbidden, "the token %s is for one tenant, and this is not of that tenant alone: take another token", o.Name)
	}
	return nil
}

func (s *server) acts(ctx context.Context, in *struct {
	Page
	Who    string `query:"who" doc:"Without the right people, only the name of the token itself."`
	Act    string `query:"act"`
	Target string `query:"target" doc:"It needs the right people."`
},
) (list[acts.Act], error) {
	all, next, err := s.Acts.ListFor(ctx, login.OperatorOf(ctx), acts.Filter{Who: in.Who, Act: in.Act, Target: in.Target}, in.Cursor, in.Limit)
	return list[acts.Act]{Items: append([]acts.Act{}, all...), Next: next}, err
}

func (s *server) connections(ctx context.Context, in *struct {
	Page
	Connector string         `query:"connector"`
	Tenant    string         `query:"tenant"`
	User      string         `query:"user" doc:"The whole id of a user."`
	Email     string         `query:"email" doc:"The whole address."`
	Condition host.Condition `query:"condition" enum:"connected,uncertain,lost,refused"`
},
) (l list[connections.Connection], err error) {
	f := connections.Filter{Connector: in.Connector, Tenant: in.Tenant, User: in.User, Email: in.Email, Condition: in.Condition}
	if f.Tenant == "" {
		f.Tenant = login.OperatorOf(ctx).Tenant
	}
	if err = checkTenant(ctx, login.People, f.Tenant); err != nil {
		return l, err
	}
	return l, s.act(ctx, "look", f.Connector, func() error {
		all, next, err := s.Connections.List(ctx, f, in.Cursor, in.Limit)
		l.Items, l.Next = append([]connections.Connection{}, all...), next
		return err
	})
}

// endings says how many connections have ended.
type endings struct {
	Revoked bool `json:"revoked" doc:"If it is false, an authorization server may still accept a grant, which the gateway has forgotten."`
	Number  int  `json:"ended"`
	Failed  int  `json:"failed" doc:"Those that are still there, such as of a connector that is not in the file."`
	More    bool `json:"more" doc:"There are more: send the request again, with another Idempotency-Key."`
}

// end ends a connection.
func (s *server) end(ctx context.Context, one connections.Connection, sum *endings) error {
	err := s.act(ctx, "end", one.Connector+" "+one.ID, func() error { return s.Connections.End(ctx, one) })
	if errors.Is(err, host.ErrNotRevoked) {
		sum.Revoked, err = false, nil
	}
	if err == nil {
		sum.Number++
	}
	return err
}

func (s *server) endConnection(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (sum endings, err error) {
	one, ok, err := s.Connections.Get(ctx, in.ID)
	if err == nil && (!ok || !login.OperatorOf(ctx).AllowsIn(login.Act, one.Tenant)) {
		err = refuse(http.StatusNotFound, "there is no connection with this id: it may have ended")
	}
	if err != nil {
		return sum, err
	}
	sum.Revoked = true
	return sum, s.end(ctx, one, &sum)
}

func (s *server) endConnections(ctx context.Context, in *struct {
	Body struct {
		Connector string `json:"connector,omitempty"`
		Tenant    string `json:"tenant,omitempty"`
		User      string `json:"user,omitempty"`
	}
},
) (sum endings, err error) {
	const perRequest = 200 // connections that one request ends
	f := connections.Filter{Connector: in.Body.Connector, Tenant: in.Body.Tenant, User: in.Body.User}
	if f == (connections.Filter{}) {
		return sum, refuse(http.StatusUnprocessableEntity, "body: name a connector, a tenant or a user: this does not end all connections of a gateway")
	}
	if f.Tenant == "" {
		f.Tenant = login.OperatorOf(ctx).Tenant
	}
	if err = checkTenant(ctx, login.Act, f.Tenant); err != nil {
		return sum, err
	}
	all, next, err := s.Connections.List(ctx, f, "", perRequest)
	sum.Revoked, sum.More = true, next != ""
	for _, one := range all {
		if failure := s.end(ctx, one, &sum); errors.Is(failure, acts.ErrUnrecorded) {
			return sum, failure // the others cannot be recorded, either
		}
	}
	sum.Failed = len(all) - sum.Number
	return sum, err
}

func (s *server) texts(ctx context.Context, in *struct {
	Tenant string `path:"tenant"`
},
) (l list[tenants.Text], err error) {
	if err = checkTenant(ctx, login.People, in.Tenant); err == nil {
		l.Items, err = s.Tenants.List(ctx, in.Tenant)
	}
	if errors.Is(err, tenants.ErrNoStore) {
		err = refuse(http.StatusConflict, "%v", err)
	}
	l.Items = append([]tenants.Text{}, l.Items...)
	return l, err
}

// TextName is the name of a secret or a variable of a tenant.
type TextName struct {
	Tenant string `path:"tenant"`
	Name   string `path:"name"`
}

type textValue struct {
	TextName
	Body struct {
		Value string `json:"value" minLength:"1" writeOnly:"true"`
	}
}

type changed struct {
	Done bool `json:"done"`
}

// change changes a text of a tenant. It is in no answer, log or act.
func (s *server) change(ctx context.Context, act, kind string, n TextName, do func(author string) error) (c changed, err error) {
	if err = checkTenant(ctx, login.Act, n.Tenant); err == nil {
		err = s.act(ctx, act, "tenant "+n.Tenant+"/"+kind+" "+n.Name, func() error { return do(login.OperatorOf(ctx).Name) })
	}
	return changed{err == nil}, err
}

func (s *server) setText(kind string) func(context.Context, *textValue) (changed, error) {
	return func(ctx context.Context, in *textValue) (changed, error) {
		return s.change(ctx, "set", kind, in.TextName, func(author string) error { return s.Tenants.Set(ctx, in.Tenant, kind, in.Name, in.Body.Value, author) })
	}
}

func (s *server) removeText(kind string) func(context.Context, *TextName) (changed, error) {
	return func(ctx context.Context, in *TextName) (changed, error) {
		return s.change(ctx, "remove", kind, *in, func(author string) error { return s.Tenants.Remove(ctx, in.Tenant, kind, in.Name, author) })
	}
}

// LinkTime is the time for which a link is good.
const LinkTime = 15 * time.Minute

// LinkRequest says for whom a link is.
type LinkRequest struct {
	User       string   `json:"user" minLength:"1" doc:"The id of the user whose accounts are to be connected."`
	Tenant     string   `json:"tenant,omitempty"`
	Connectors []string `json:"connectors" minItems:"1" doc:"Permalinks of connectors."`
	Back       string   `json:"back,omitempty" doc:"The URL to which the browser goes afterwards."`
}

type link struct {
	URL     string    `json:"url" doc:"Who opens it first connects accounts as this user: give it to nobody else."`
	Expires time.Time `json:"expires"`
}

func (s *server) link(ctx context.Context, in *struct{ Body LinkRequest }) (l link, err error) {
	if err = checkTenant(ctx, login.Act, in.Body.Tenant); err == nil && s.Link == nil {
		err = refuse(http.StatusConflict, "links are off: the file in use does not allow them")
	}
	if err != nil {
		return l, err
	}
	return l, s.act(ctx, "link", "", func() (err error) {
		l.Expires = s.Clock().Add(LinkTime)
		l.URL, err = s.Link(ctx, in.Body)
		return err
	})
}

// maxFile is the size of a body, such as a file that is checked, in bytes.
const maxFile = 16 << 20

// CheckResult says what is wrong with a file, and what would be different with it.
type CheckResult struct {
	Problems   []connectors.Problem `json:"problems" doc:"Why the file cannot be used."`
	Warnings   []connectors.Problem `json:"warnings" doc:"What is probably a mistake."`
	Wider      bool                 `json:"wider" doc:"Something is allowed that is not allowed now."`
	Difference *difference.Document `json:"difference,omitempty" doc:"What is different from the file in use. It is absent if the file has problems."`
}

// CheckFile checks the text of a file that may take the place of the one at path. It reads no secret, opens no store and sends nothing.
func CheckFile(ctx context.Context, path string, text []byte, o connectors.Options, inUse *connectors.Set) (CheckResult, error) {
	o.Inspect, o.WithoutStore, o.ReadSecrets, o.OpenState = true, true, false, nil
	r := CheckResult{Problems: []connectors.Problem{}, Warnings: []connectors.Problem{}}
	set, err := connectors.Read(ctx, path, text, o)
	if wrong, ok := errors.AsType[*connectors.Error](err); ok {
		r.Problems, r.Warnings = wrong.Problems, append(r.Warnings, wrong.Warnings...)
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Warnings, r.Difference = append(r.Warnings, set.Warnings...), difference.Of(inUse, set)
	r.Wider = r.Difference.Wider()
	return r, set.Close(context.WithoutCancel(ctx))
}

func (s *server) check(ctx context.Context, in *struct {
	RawBody []byte `contentType:"application/yaml"`
},
) (r CheckResult, err error) {
	return r, s.act(ctx, "check", "", func() error {
		s.checking.Lock()
		defer s.checking.Unlock()
		r, err = s.Check(ctx, bytes.Clone(in.RawBody))
		return err
	})
}

func (s *server) reload(ctx context.Context, _ *struct{}) (c Configuration, err error) {
	if err = checkTenant(ctx, login.Act, ""); err == nil {
		err = s.act(ctx, "reload", "", func() error {
			if err := s.Reload(ctx); err != nil {
				return fmt.Errorf("the one before stays in use: %w", err)
			}
			return nil
		})
	}
	return s.Configuration(), err
}

// addTest adds the operation of Config.Test, which reads and writes itself.
func (s *server) addTest(route, summary string, rights ...login.Right) {
	o := s.operation(route, summary, rights)
	object := func(doc string) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, Description: doc, AdditionalProperties: true}}}
	}
	o.Parameters = append(o.Parameters, &huma.Param{Name: "permalink", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	o.RequestBody = &huma.RequestBody{Content: object("The method, path, headers, body and user of a caller. All of them may be absent.")}
	o.Responses["200"] = &huma.Response{Description: "OK", Content: object("What `keywright test --json` writes.")}
	s.api.OpenAPI().AddOperation(&o)
	s.api.Adapter().Handle(&o, o.Middlewares.Handler(func(c huma.Context) {
		r, w := humago.Unwrap(c)
		var result *recorded
		_ = s.act(r.Context(), "test", r.PathValue("permalink"), func() error {
			if result = record(c, r, func(c huma.Context) { r, w := humago.Unwrap(c); s.Test.ServeHTTP(w, r) }); result.status >= http.StatusBadRequest {
				return refuse(result.status, "refused")
			}
			return nil
		})
		if result == nil {
			_ = huma.WriteErr(s.api, c, http.StatusServiceUnavailable, acts.ErrUnrecorded.Error())
			return
		}
		result.send(w)
	}))
}
