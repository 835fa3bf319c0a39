// Package kubernetes has no client.
package kubernetes

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

type (
	Interface interface {
		CoreV1() Core
		Discovery() Discovery
	}
	Core interface {
		Secrets(namespace string) Secrets
	}
	Secrets interface {
		Get(context.Context, string, meta.GetOptions) (*core.Secret, error)
		Create(context.Context, *core.Secret, meta.CreateOptions) (*core.Secret, error)
		Update(context.Context, *core.Secret, meta.UpdateOptions) (*core.Secret, error)
	}
	Discovery interface {
		ServerVersion() (fmt.Stringer, error)
	}
)

func NewForConfig(*rest.Config) (Interface, error) { return nil, rest.ErrUnused }
