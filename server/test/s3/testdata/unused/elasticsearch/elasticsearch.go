// Package elasticsearch has no index.
package elasticsearch

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// ErrUnused is the error of all calls.
var ErrUnused = errors.New("the client of Elasticsearch is not linked into this MinIO")

type (
	Config struct {
		Addresses          []string
		Transport          http.RoundTripper
		MaxRetries         int
		Username, Password string
	}
	Client struct {
		Info, Ping     Call
		Exists, Delete Document
		Index          Write
		Indices        struct {
			ResolveIndex func([]string, ...Option) (*Response, error)
			Create       func(string, ...Option) (*Response, error)
		}
	}
	Response struct{ Body io.ReadCloser }
	Option   struct{}
	Call     func(...Option) (*Response, error)
	Document func(index, id string, o ...Option) (*Response, error)
	Write    func(index string, body io.Reader, o ...Option) (*Response, error)
)

func NewClient(Config) (*Client, error) { return nil, ErrUnused }

func (*Response) String() string                    { return ErrUnused.Error() }
func (*Response) IsError() bool                     { return true }
func (Call) WithContext(context.Context) Option     { return Option{} }
func (Document) WithContext(context.Context) Option { return Option{} }
func (Write) WithContext(context.Context) Option    { return Option{} }
func (Write) WithDocumentID(string) Option          { return Option{} }
