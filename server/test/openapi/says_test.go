package openapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// A document has the parts of an OpenAPI document that say how to authenticate. It is read independently of the import.
type document struct {
	Components struct {
		Schemes map[string]scheme `json:"securitySchemes"`
	} `json:"components"`
}

type scheme struct {
	Type, In, Name, Scheme string
	Flows                  map[string]flow
	OpenIDConnectURL       string `json:"openIdConnectUrl"`
	Amazon                 string `json:"x-amazon-apigateway-authtype"`
}

type flow struct {
	AuthorizationURL string `json:"authorizationUrl"`
	TokenURL         string `json:"tokenUrl"`
	Scopes           map[string]any
}

// sends returns an error if the connector does not authenticate as the scheme of the document says.
func (e *entry) sends(ctx context.Context, c *gateway.Connector) error {
	switch s := e.raw; s.Type {
	case "oauth2":
		return e.flow(ctx, c)
	case "openIdConnect":
		issuer := strings.TrimSuffix(s.OpenIDConnectURL, "/.well-known/openid-configuration")
		if config := c.Definition().Auth[0].Config; config["token_url"] != "{{ discover('"+issuer+"', 'token_endpoint') }}" {
			return fmt.Errorf("token_url is %v", config["token_url"])
		}
		return nil
	default:
		request, err := explain(ctx, c)
		if err != nil {
			return err
		}
		return e.credential(request)
	}
}

// explain returns the request that the gateway would send, with masked credentials.
func explain(ctx context.Context, c *gateway.Connector) (*host.Explanation, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL().String(), nil)
	if err != nil {
		return nil, err
	}
	explained, err := c.Upstream().Explain(r)
	if err != nil {
		return nil, err
	}
	for _, p := range c.Definition().Headers {
		explained.Headers = append(explained.Headers, abi.Pair{Name: p.Name, Value: p.Value})
	}
	for _, p := range c.Definition().Query {
		explained.Added.Query += "&" + url.QueryEscape(p.Name) + "=" + url.QueryEscape(p.Value)
	}
	return explained, nil
}

// credential returns an error unless the request has the credential in the place that the document names.
func (e *entry) credential(x *host.Explanation) error {
	s := e.raw
	header := func(name, begin string) error {
		for _, pair := range x.Headers {
			if strings.EqualFold(pair.Name, name) && strings.HasPrefix(strings.ToLower(pair.Value), strings.ToLower(begin)) && (strings.Contains(pair.Value, "get_secret") || x.AuthType == "aws_sigv4" || x.AuthType == "oauth1") {
				return nil
			}
		}
		return fmt.Errorf("no header %s with %q", name, begin)
	}
	switch {
	case strings.HasPrefix(s.Amazon, "aws"):
		return header("Authorization", "AWS4-HMAC-SHA256 Credential=")
	case s.Type == "apiKey" && s.In == "header":
		return header(s.Name, "{{ get_secret(")
	case s.Type == "apiKey" && s.In == "cookie":
		return header("Cookie", s.Name+"=")
	case s.Type == "apiKey" && s.In == "query":
		if !strings.Contains("&"+x.Added.Query, "&"+url.QueryEscape(s.Name)+"=") {
			return fmt.Errorf("no query parameter %s: %s", s.Name, x.Added.Query)
		}
		return nil
	case s.Type == "http" && slices.Contains([]string{"basic", "bearer", "oauth"}, strings.ToLower(s.Scheme)):
		return header("Authorization", s.Scheme+" ")
	}
	return errors.New("nothing is known of it here")
}

// types has the auth type of each flow.
var types = map[string]string{
	"clientCredentials": "oauth_client_credentials", "authorizationCode": "oauth_authorization_code",
	"password": "oauth_password", "implicit": "oauth_authorization_code",
}

// flow returns an error unless the connector has the endpoints and scopes of a flow of the document.
func (e *entry) flow(ctx context.Context, c *gateway.Connector) error {
	definition := c.Definition()
	var wrong error
	for name, f := range e.raw.Flows {
		if definition.Auth.Type() != types[name] {
			continue
		}
		wrong = e.endpoints(definition.Auth[0].Config, c.BaseURL(), name, f)
		if wrong != nil {
			continue
		}
		if definition.Auth.Type() == "oauth_authorization_code" {
			return nil // its token request follows a consent
		}
		return asks(ctx, c, f)
	}
	if wrong != nil {
		return wrong
	}
	return errors.New("the type is " + definition.Auth.Type())
}

func (e *entry) endpoints(config map[string]any, base *url.URL, name string, f flow) error {
	for field, stated := range map[string]string{"authorization_url": f.AuthorizationURL, "token_url": f.TokenURL} {
		if stated == "" && field == "token_url" && name == "implicit" {
			stated, _ = config[field].(string) // it is not in the document
			if u, err := url.Parse(stated); err != nil || u.Scheme != "https" || u.Host == "" {
				return fmt.Errorf("%s is %q", field, stated)
			}
			continue
		}
		if stated == "" || field == "authorization_url" && name != "implicit" && name != "authorizationCode" {
			continue
		}
		if !same(base, stated, config[field]) {
			return fmt.Errorf("%s is %v, and not %s", field, config[field], stated)
		}
	}
	for _, scope := range strings.Fields(fmt.Sprint(config["scope"])) {
		if _, there := f.Scopes[scope]; !there && config["scope"] != nil && len(f.Scopes) > 0 && !e.spaced(f) {
			return fmt.Errorf("the document has no scope %s", scope)
		}
	}
	return nil
}

// spaced reports whether a scope has a space in its name.
func (*entry) spaced(f flow) bool {
	for scope := range f.Scopes {
		if strings.Contains(scope, " ") {
			return true
		}
	}
	return false
}

// same reports whether a URL of a connector is that of the document, with https.
func same(base *url.URL, stated string, has any) bool {
	u, err := url.Parse(stated)
	if err != nil {
		return false
	}
	if !u.IsAbs() {
		if !strings.HasPrefix(stated, "/") {
			stated = strings.TrimSuffix(base.Path, "/") + "/" + stated
		}
		stated = "https://" + base.Host + stated
	}
	return has == strings.Replace(stated, "http://", "https://", 1)
}

// asks returns an error unless the connector asks the token endpoint of the document.
func asks(ctx context.Context, c *gateway.Connector, f flow) error {
	explained, err := explain(ctx, c)
	if err != nil {
		return err
	}
	for _, step := range explained.Steps {
		if step.Exchange != nil && same(c.BaseURL(), f.TokenURL, step.Exchange.URL) {
			return nil
		}
	}
	return errors.New("it does not ask the token endpoint")
}
