// Package record makes a case for `keywright plugin test` of a request that an operator has sent. The case fails or succeeds as the
// request did, and has no secret of the operator, no name of a user, and no text of an answer.
package record

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/casefile"
)

// Sent is a request that was sent through a connector, and what came of it.
type Sent struct {
	// Host is the host of the connector. Its secrets and variables are read once more, to make up others of their kind.
	Host      *host.Host
	Connector *host.Connector
	// Module is the module of its plugin, with which the case is run. If it is nil, the case is not run.
	Module []byte
	// Request is the request as the caller of the connector made it. Its context has the user. GetBody returns its body.
	Request *http.Request
	// Began is the time at which it was sent.
	Began time.Time
	Trace *host.Trace
	// Status is the status of the answer, and Err the error without one.
	Status int
	Err    error
}

// Recording is the case of a request, and what its reader has to know.
type Recording struct {
	Case casefile.Case
	// Replaced says what has been replaced, for people.
	Replaced []string
	// Check says what the operator has to look at before somebody else gets the case.
	Check []string
	// Differs says how the case, when it is run, differs from the request. It is empty if it does not.
	Differs []string
}

// YAML returns the case as a file for `keywright plugin test`. plugin is the plugin's name on its command line.
func (r *Recording) YAML(plugin string) ([]byte, error) {
	text, err := yaml.Dump([]casefile.Case{r.Case})
	if err != nil {
		return nil, err
	}
	head := "# Recorded by `keywright request --record`: secrets, users, hosts and the texts of answers are made up.\n" +
		"# `keywright plugin test " + plugin + " --cases FILE` sends this request again, without a network.\n"
	return append([]byte(head), text...), nil
}

// Of returns the recording of a request.
func Of(s Sent) (*Recording, error) {
	infos, err := s.infos()
	if err != nil {
		return nil, err
	}
	info, _ := s.Host.Plugin(s.AuthType())
	r := &recorder{
		input: s, infos: infos, info: info, ctx: s.Request.Context(), hosts: map[string]string{strings.ToLower(s.Request.URL.Host): apiHost},
		out: &Recording{Case: casefile.Case{Name: "a recorded request", Time: s.Began.UTC().Truncate(time.Second), Grants: info.Grants}},
	}
	r.out.Case.Variables, r.step().Secrets, r.step().Keys = map[string]string{}, map[string]string{}, map[string]string{}
	r.config()
	r.user()
	r.secrets()
	r.variables()
	if err := r.request(); err != nil {
		return nil, err
	}
	r.answers()
	r.replay()
	return r.out, nil
}

// apiHost is the host of the API in a case. Those of other URLs are login1.test and so on.
const apiHost = "api.test"

type recorder struct {
	input Sent
	// infos has the plugin of each authentication, and info the one that the case is of.
	infos []host.PluginInfo
	info  host.PluginInfo
	// ctx is the context of the request, which has its user.
	ctx context.Context
	out *Recording
	// configs has the configuration of each authentication in the case.
	configs []any
	// hosts has the made-up host in place of each one.
	hosts map[string]string
	// literals are the texts of the configuration that stay: a placeholder of the path may be one.
	literals []string
	// textCount counts the texts that were made up.
	textCount int
}

func (r *recorder) step() *casefile.Step { return &r.out.Case.Step }

// AuthType returns the auth type of the plugin that the case is of: of several, the first that is not built in, or else the first.
func (s *Sent) AuthType() string {
	auths := s.Connector.Config().Auth
	i := slices.IndexFunc(auths, func(a host.Auth) bool { info, _ := s.Host.Plugin(a.Type); return !info.BuiltIn })
	return auths[max(i, 0)].Type
}

// infos returns what the host knows of the plugin of each authentication.
func (s *Sent) infos() (all []host.PluginInfo, err error) {
	own, _ := s.Host.Plugin(s.AuthType())
	for _, a := range s.Connector.Config().Auth {
		info, _ := s.Host.Plugin(a.Type)
		switch {
		case !info.BuiltIn && info.Type != own.Type:
			return nil, fmt.Errorf("the connector has %s and %s, and a case has one plugin that is not built in: record a connector with one of them", own.Type, info.Type)
		case info.Consent:
			return nil, fmt.Errorf("requests of %s cannot be recorded: they need what a user has consented to, which is in the store of state", a.Type)
		case names(a.Config, "get_key("):
			return nil, fmt.Errorf("the connector has a key of a store of keys (get_key), and a record has no such store: put a key of your own there with get_secret, and record that")
		}
		all = append(all, info)
	}
	if len(s.Connector.Config().Hosts) > 0 {
		return nil, fmt.Errorf("the connector has hosts of tenants or answers, and a record has one host: record a connector with a literal url")
	}
	return all, nil
}

func (r *recorder) config() {
	auths := r.input.Connector.Config().Auth
	for i, auth := range auths {
		path := "config"
		if len(auths) > 1 {
			path = fmt.Sprintf("auth[%d].config", i)
		}
		config := r.fields(&r.infos[i], auth.Config, path)
		r.configs = append(r.configs, config)
		if len(auths) > 1 {
			r.out.Case.Auth = append(r.out.Case.Auth, host.Auth{Type: auth.Type, Config: config})
			continue
		}
		if r.out.Case.Config = config; auth.Type != r.info.Type {
			r.out.Case.Type = auth.Type
		}
	}
	if tls := r.input.Connector.Config().TLS; tls != nil {
		r.check("the connector has tls, which a case cannot have: it is left out")
	}
}

// fields returns the configuration of a plugin for the case. path is its place in the case.
func (r *recorder) fields(info *host.PluginInfo, all map[string]any, path string) map[string]any {
	config := map[string]any{}
	var plain []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		i := slices.IndexFunc(info.Fields, func(f abi.Field) bool { return f.Name == name })
		if i < 0 {
			continue
		}
		f := &info.Fields[i]
		config[name] = r.field(f, all[name])
		text, isText := config[name].(string)
		if !isText || slices.Contains(f.Enum, text) {
			continue
		}
		expressions := strings.Contains(text, "{{")
		if !expressions {
			r.literals = append(r.literals, text)
		}
		if !expressions || !f.Sealed && f.Kind != abi.KindKey && f.Kind != abi.KindCertificate { // the literals beside it stay
			plain = append(plain, name)
		}
	}
	if len(plain) > 0 {
		r.check("%s: %s: as in your file, but for the names of hosts", path, strings.Join(plain, ", "))
	}
	return config
}

func (r *recorder) field(f *abi.Field, value any) any {
	text, isText := value.(string)
	switch {
	case !isText && f.Kind == abi.KindObject:
		return r.object(value)
	case value != nil && !isText && (f.Sealed || f.Kind == abi.KindKey):
		return r.sealed(f.Name, fmt.Sprint(value))
	case !isText, slices.Contains(f.Enum, text):
		return value
	case f.Sealed || f.Kind == abi.KindKey || f.Kind == abi.KindCertificate:
		return r.sealed(f.Name, text)
	}
	return r.withHosts(text)
}

// number returns a number of the same length, with the digit 1 only. One of fewer digits than a PIN stays.
func number(text string) any {
	const pin = 4
	if len(text) >= pin {
		text = strings.Repeat("1", min(len(text), 9))
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	return text
}

// memberName returns the name of a member of an object, or a made-up one in place of a name that may be a credential.
func (r *recorder) memberName(name string) string {
	switch url := r.withHosts(name); {
	case plainName.MatchString(name), headerName.MatchString(name):
		return name
	case url != name:
		return r.url(url)
	}
	r.replaced("names of members in objects of the configuration")
	return r.text(name)
}

// object returns an object with made-up texts in place of its literal ones, and of names, which may be credentials. Templates stay.
func (r *recorder) object(value any) any {
	return casefile.Mapped(value, r.memberName, func(value any) any {
		switch v := value.(type) {
		case string:
			_, length := literals(v)
			switch url := r.withHosts(v); {
			case isTemplate(v) && length < shortest:
				return url
			case url != v:
				return r.url(url)
			}
			r.replaced("literal texts in objects of the configuration")
			return r.text(v)
		case json.Number, float64, int, int64, uint64:
			return number(fmt.Sprint(v))
		}
		return value
	})
}

// sealed returns the value of a field that is sealed: a template, or a secret of the case in place of a text that may be one.
func (r *recorder) sealed(field, text string) string {
	if isPlain(text) {
		return r.withHosts(text)
	}
	name := "recorded-" + field
	r.secret(name, text)
	r.replaced("the literal value of " + field + ", by the secret " + name)
	return "{{ get_secret('" + name + "') }}"
}

func (r *recorder) user() {
	if names(r.configs, "user.token") || names(r.configs, "identity(") {
		r.out.Case.UserTokenHosts = slices.Compact(slices.Sorted(maps.Values(r.hosts)))
	}
	u, ok := host.UserFrom(r.ctx)
	if !ok {
		return
	}
	user := &casefile.User{
		ID: shape(u.ID, false), Tenant: shape(u.TenantID, false), Email: shape(u.Email, false), Username: shape(u.Username, false),
		FirstName: shape(u.FirstName, false), LastName: shape(u.LastName, false),
	}
	if u.Token != "" {
		user.Token = r.text(u.Token)
	}
	if *user != (casefile.User{}) {
		r.step().User = user
		r.replaced("the fields of the user")
	}
}

// secrets sets a made-up secret in place of each that the configuration names and that there is.
func (r *recorder) secrets() {
	names := r.input.Connector.Secrets()
	madeUp := host.User{}
	if user := r.step().User; user != nil {
		madeUp = host.User{ID: user.ID, TenantID: user.Tenant}
	}
	for _, name := range names {
		value, err := r.rendered(secretCall(name))
		secretName, missing := host.SecretName(name, madeUp)
		if err != nil || missing != nil {
			continue // so it is in the case, too
		}
		r.secret(secretName, value)
	}
	if len(names) > 0 {
		r.replaced("secrets: " + strings.Join(names, ", "))
	}
	for _, text := range configTexts(r.configs) {
		for _, found := range identityCall.FindAllStringSubmatch(text, -1) { // in a case, its token is the secret of its name
			r.secret(found[1], "a token")
			r.replaced("the tokens of identities")
		}
	}
}

// secretCall returns the expression for a name of [host.Connector.Secrets].
func secretCall(name string) string {
	for directory, owner := range map[string]string{"tenants/*/": "tenant", "users/*/": "user"} {
		if last, ok := strings.CutPrefix(name, directory); ok {
			return "get_secret('" + last + "', '" + owner + "')"
		}
	}
	return "get_secret('" + name + "')"
}

// variables sets a made-up variable in place of each that the configuration names and that there is.
func (r *recorder) variables() {
	var names []string
	for _, text := range configTexts(r.configs) {
		for _, found := range variableCall.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if value, err := r.rendered("get_variable('" + name + "')"); err == nil {
			r.out.Case.Variables[name] = r.variable(value)
		}
	}
	if len(names) > 0 {
		r.replaced("variables, but for numbers and names that the plugin lists")
	}
}

// variable returns a text in place of the value of a variable.
func (r *recorder) variable(value string) string {
	listed := slices.ContainsFunc(r.infos, func(info host.PluginInfo) bool {
		return slices.ContainsFunc(info.Fields, func(f abi.Field) bool { return slices.Contains(f.Enum, value) })
	})
	switch url := r.withHosts(value); {
	case listed, value == "true", value == "false", shortNumber.MatchString(value):
		return value
	case url != value:
		return r.url(url)
	}
	return shape(value, false)
}

func (r *recorder) rendered(expression string) (string, error) {
	template, err := r.input.Host.Template("{{ " + expression + " }}")
	if err != nil {
		return "", err
	}
	text, err := template.Render(r.ctx)
	return text.Value, err
}

func (r *recorder) replaced(what string) {
	if !slices.Contains(r.out.Replaced, what) {
		r.out.Replaced = append(r.out.Replaced, what)
	}
}

func (r *recorder) check(format string, args ...any) {
	r.out.Check = append(r.out.Check, fmt.Sprintf(format, args...))
}
