// Package okta finds no user.
package okta

import (
	"context"
	"errors"
)

// ErrUnused is the error of all requests.
var ErrUnused = errors.New("the client of Okta is not linked into this Vault")

type (
	Configuration struct{ Context context.Context }
	ConfigSetter  func(*Configuration)
	APIResponse   struct{}

	APIClient struct {
		UserAPI       UserAPI
		UserFactorAPI UserFactorAPI
	}
	UserAPI       struct{}
	UserFactorAPI struct{}

	User                                  struct{}
	UserFactorPush                        struct{}
	ListFactors200ResponseInner           struct{ UserFactorPush *UserFactorPush }
	UserFactorVerifyResponse              struct{ Links map[string]any }
	GetFactorTransactionStatus200Response struct {
		UserFactorPushTransactionWaiting, UserFactorPushTransaction, UserFactorPushTransactionRejected, UserFactorPushTransactionTimeout *struct{}
	}
)

// A Request has no answer.
type Request[T any] struct{}

func (r Request[T]) Filter(string) Request[T] { return r }

func (Request[T]) Execute() (answer T, response *APIResponse, err error) {
	return answer, nil, ErrUnused
}

func NewConfiguration(...ConfigSetter) (*Configuration, error) { return nil, ErrUnused }
func WithToken(string) ConfigSetter                            { return nil }
func WithOrgUrl(string) ConfigSetter                           { return nil }
func WithCache(bool) ConfigSetter                              { return nil }
func NewAPIClient(*Configuration) *APIClient                   { return &APIClient{} }
func (*APIClient) GetConfig() *Configuration                   { return &Configuration{} }

func (*User) GetId() string                               { return "" }
func (*UserFactorPush) GetId() string                     { return "" }
func (*UserFactorVerifyResponse) GetFactorResult() string { return "" }

func (UserAPI) ListUsers(context.Context) (r Request[[]User]) { return r }

func (UserFactorAPI) ListFactors(context.Context, string) (r Request[[]ListFactors200ResponseInner]) {
	return r
}

func (UserFactorAPI) VerifyFactor(context.Context, string, string) (r Request[*UserFactorVerifyResponse]) {
	return r
}

func (UserFactorAPI) GetFactorTransactionStatus(context.Context, string, string, string) (r Request[*GetFactorTransactionStatus200Response]) {
	return r
}
