// Plugin githubapp adds an installation access token of a GitHub App.
package main

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

const (
	// margin is the time before a token's expiry in which the token is not used.
	margin = 60 * time.Second
	// leeway and lifetime are the seconds from the app's JWT's iat to now, and from now to its exp. GitHub refuses a JWT from
	// the future, and one that lasts for more than 10 minutes.
	leeway, lifetime = 60, 9 * 60
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	claim, token := []sdk.Sink{sdk.ToClaim}, []sdk.Sink{sdk.ToToken}
	return sdk.Description{
		ABI: sdk.ABI, Type: "github_app", Version: "1.0.0",
		Summary: "An installation access token of a GitHub App, cached until a minute before it expires.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: []sdk.Field{
			{Name: "client_id", Kind: sdk.String, Sinks: claim, Doc: "Client ID of the app. Either this or app_id is required."},
			{Name: "app_id", Kind: sdk.Integer, Minimum: sdk.Limit(1), Doc: "ID of the app, in place of client_id."},
			{Name: "installation_id", Kind: sdk.Integer, Required: true, Minimum: sdk.Limit(1), Doc: "ID of the installation that the token is for.", Obtain: "It ends the URL of the installation's settings."},
			{
				Name: "private_key", Kind: sdk.Key, Required: true, AlgorithmField: "algorithm", Doc: "Private key of the app, the PEM file as GitHub hands it out.",
				Obtain: "In the settings of the app: Private keys, Generate a private key.",
			},
			{Name: "algorithm", Kind: sdk.String, Enum: []string{"RS256"}, Default: "RS256", Doc: "Signature algorithm: GitHub knows one."},
			{
				Name: "api_url", Kind: sdk.URL, Required: true, Sinks: token, Suggested: []string{"https://api.github.com"},
				Doc: "The REST API: https://api.github.com, or https://HOST/api/v3 of an Enterprise Server.",
			},
			{
				Name: "repositories", Kind: sdk.String, Sinks: token, Doc: "Names of the repositories that the token is for, separated by spaces. Without them, it is for all.",
				Pattern: `[^/]*`, PatternMessage: "has a slash: write the names without the owner, who is that of the installation",
			},
			{Name: "permissions", Kind: sdk.Object, Sinks: token, Doc: "Permissions of the token, such as {contents: read}. Without them, it has those of the installation."},
		},
		Answers: []sdk.Answer{
			{Name: "token", From: "json:/token", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToHeader}, Required: true},
			{Name: "expires_at", From: "json:/expires_at", Kind: sdk.AnswerTime, Required: true},
		},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	clientID, _ := c.Literal("client_id")
	if appID, _ := c.Literal("app_id"); clientID != "" && appID != "" {
		return []sdk.Problem{{Field: "app_id", Message: "is there beside client_id: " + either}}
	}
	return nil
}

// either says which fields name the app.
const either = "set one of client_id and app_id, which the settings of the app on GitHub show"

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached("token"); ok {
		return sdk.Bearer(token), nil
	}
	answers, err := oauth.InTime(c, func() (sdk.Answers, error) { return installationToken(c) })
	if err != nil {
		return sdk.Mutation{}, err
	}
	if lifetime := c.Lifetime(answers, 0); lifetime > margin {
		c.Cache("token", answers["token"], lifetime-margin)
	} else {
		c.Warn("the token is not cached: GitHub's expires_at is within 60 seconds, so check the host's clock")
	}
	return sdk.Bearer(answers["token"]), nil
}

// installationToken requests a token of the installation.
func installationToken(c *sdk.Call) (sdk.Answers, error) {
	signed, err := assertion(c)
	if err != nil {
		return nil, err
	}
	status, answers := c.Exchange(sdk.Exchange{
		URL: c.Config("api_url"), Path: []string{"app", "installations", c.Config("installation_id"), "access_tokens"}, JSON: body(c),
		Headers: []sdk.Pair{
			{Name: "Authorization", Value: "Bearer " + signed},
			{Name: "Accept", Value: "application/vnd.github+json"},
			{Name: "X-GitHub-Api-Version", Value: "2022-11-28"},
		},
	})
	if status > 399 {
		return nil, errors.New(advice(status))
	}
	return answers, nil
}

// assertion returns the JWT with which the app authenticates itself.
func assertion(c *sdk.Call) (string, error) {
	clientID, appID := c.Config("client_id"), c.Config("app_id")
	if (clientID == "") == (appID == "") {
		return "", errors.New(either)
	}
	now := c.Now() + c.ClockOffset()
	var claims sdk.Members
	claims.String("iss", clientID+appID)
	claims.Integer("iat", now-leeway)
	claims.Integer("exp", now+lifetime)
	return c.SignAssertion(sdk.JWT{Key: "private_key", Claims: claims.JSON()}), nil
}

// body returns the body of the request for a token, or "".
func body(c *sdk.Call) string {
	var members sdk.Members
	if repositories := strings.Fields(c.Config("repositories")); len(repositories) > 0 {
		members.Raw("repositories", sdk.Strings(repositories))
	}
	if permissions := c.Config("permissions"); permissions != "" {
		members.Raw("permissions", permissions)
	}
	if members.JSON() == "{}" {
		return ""
	}
	return members.JSON()
}

// advice returns what to do about a refusal.
func advice(status int) string {
	return cmp.Or(map[int]string{
		401: "check client_id or app_id, private_key, and the host's clock",
		403: "the installation may be suspended",
		404: "check installation_id, and api_url",
		422: "the installation does not have all of repositories or permissions",
	}[status], "see the status of GitHub")
}
