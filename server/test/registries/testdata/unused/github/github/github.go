// Package github has no secrets.
package github

import (
	"context"
	"errors"
	"net/http"
)

var errUnused = errors.New("the client of GitHub is not linked into this cosign")

type (
	Client          struct{ Actions Actions }
	Actions         struct{}
	Option          struct{}
	Response        struct{ *http.Response }
	PublicKey       struct{}
	EncryptedSecret struct{ Name, KeyID, EncryptedValue string }
)

func NewClient(...Option) (*Client, error)     { return nil, errUnused }
func WithHTTPClient(*http.Client) Option       { return Option{} }
func WithEnterpriseURLs(string, string) Option { return Option{} }

func (*PublicKey) GetKey() string   { return "" }
func (*PublicKey) GetKeyID() string { return "" }

func (Actions) GetRepoPublicKey(context.Context, string, string) (*PublicKey, *Response, error) {
	return nil, nil, errUnused
}

func (Actions) GetOrgPublicKey(context.Context, string) (*PublicKey, *Response, error) {
	return nil, nil, errUnused
}

func (Actions) CreateOrUpdateRepoSecret(context.Context, string, string, *EncryptedSecret) (*Response, error) {
	return nil, errUnused
}

func (Actions) CreateOrUpdateOrgSecret(context.Context, string, *EncryptedSecret) (*Response, error) {
	return nil, errUnused
}
