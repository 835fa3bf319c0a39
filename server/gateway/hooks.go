package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/keywright/keywright/server/internal/trial"
)

func init() { //nolint:gochecknoinits // only package gateway can set them
	trial.Run = func(ctx context.Context, gateway any, permalink string, t trial.Try) (*trial.Result, error) {
		return gateway.(*Gateway).runTest(ctx, permalink, t)
	}
	trial.NewOutgoing = func(ctx context.Context, connector any, in trial.Incoming) (*trial.Outgoing, error) {
		out, err := connector.(*Connector).outgoing(ctx, in)
		switch {
		case err != nil:
			return nil, err
		case in.Masked:
			return out.masked, nil
		}
		return &out.Outgoing, nil
	}
	trial.Dropped = func(connector any, query string) []string {
		params, _ := parseQuery(query) // what is not well formed is refused
		return connector.(*Connector).drops(params)
	}
	trial.Way = func(event any) []trial.Step { return event.(*Event).way() }
	trial.Remedy = func(response *http.Response, now time.Time) string {
		e := Event{Status: response.StatusCode, Refusal: refusedBy(response, now)}
		return e.Remedy()
	}
}
