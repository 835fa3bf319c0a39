package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/serve/audit"
)

// auditor writes the uses of credentials to the audit log of the file.
type auditor struct {
	// log is nil if the file has no gateway.audit. It cannot change while the daemon runs.
	log   *audit.Log
	clock func() time.Time

	mu sync.RWMutex
	// subjects has the connectors of all sets that are in use or have requests in flight.
	subjects map[*host.Connector]*subject
}

// subject is a connector in lines of the log.
type subject struct {
	// request has the secrets of all that the connector sends, and token those of auth.
	request, token *audit.Subject
	origin         string
}

func (d *daemon) openAudit(settings *connectors.Audit, stdout func() io.Writer) (err error) {
	if settings == nil {
		return nil
	}
	c := audit.Config{Path: settings.File, Node: d.node, Lossy: settings.OnError == connectors.AuditContinue, Logger: d.config.Logger, Clock: d.clock}
	if settings.Stdout {
		c.Writer = stdout()
	}
	log, err := audit.Open(c)
	if err != nil {
		return fmt.Errorf("gateway.audit: %w", err)
	}
	d.audit.log = log
	d.metrics.Total("audit_lines_total", "Lines that were written to the audit log.", func() float64 {
		lines, _ := log.Lines()
		return float64(lines)
	})
	d.metrics.Total("audit_lost_total", "Uses of credentials that are not in the audit log.", func() float64 {
		_, lost := log.Lines()
		return float64(lost)
	})
	d.metrics.Flag("audit_writable", "1 while the audit log can be written, 0 since it could not be.", func() bool { return log.Failure() == nil })
	return nil
}

func (a *auditor) add(set *connectors.Set) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range set.Connectors {
		definition, base := c.Definition(), c.BaseURL()
		var names, digests []string
		for _, auth := range definition.Auth {
			plugin, _ := set.Host.Plugin(auth.Type)
			names, digests = append(names, plugin.Name), append(digests, plugin.SHA256)
		}
		newSubject := func(secrets []string) *audit.Subject {
			return audit.NewSubject(definition.Permalink, definition.Auth.Type(), strings.Join(names, "+"), strings.Join(digests, "+"), secrets)
		}
		a.subjects[c.Upstream()] = &subject{newSubject(c.Secrets()), newSubject(c.Upstream().Secrets()), base.Scheme + "://" + base.Host}
	}
}

func (a *auditor) remove(set *connectors.Set) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range set.Connectors {
		delete(a.subjects, c.Upstream())
	}
}

func (a *auditor) subject(c *host.Connector) *subject {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if s := a.subjects[c]; s != nil {
		return s
	}
	for key, s := range a.subjects { // a test has a connector of its own
		if key.Config().Name == c.Config().Name {
			return s
		}
	}
	return &subject{}
}

// request records a request that has used a credential.
func (a *auditor) request(e *gateway.Event) {
	if a.log == nil || e.Use == "" {
		return
	}
	s := a.subject(e.Served.Upstream())
	a.log.Add(&audit.Record{
		Time: e.Began, Use: string(e.Use), RequestID: e.ID, Tenant: e.Tenant, User: e.User, Subject: s.request, Origin: s.origin,
		Method: e.Method, Pattern: e.Pattern, Status: e.Status, UpstreamStatus: e.UpstreamStatus, Problem: e.Problem, Stage: e.Stage, Sent: e.Sends,
	})
}

// attempted records that a token endpoint was asked, or that a key of the store of keys was used. The request that an attempt was
// made for has a line of its own, and may have ended before.
func (a *auditor) attempted(ctx context.Context, attempt *host.Attempt) {
	if a.log == nil || attempt.Exchanges == 0 && attempt.KeyRequests == 0 {
		return
	}
	use := "key"
	switch {
	case attempt.Ahead:
		use = "refresh"
	case attempt.Exchanges > 0:
		use = "token"
	}
	stage := ""
	if failed, ok := errors.AsType[*host.Error](attempt.Err); ok {
		stage = string(failed.Stage)
	}
	user, _ := host.UserFrom(ctx)
	a.log.Add(&audit.Record{
		Time: a.clock(), Use: use, RequestID: gateway.RequestID(ctx), Tenant: user.TenantID, User: user.ID, Subject: a.subject(attempt.Source).token,
		Origin: attempt.Endpoint, Stage: stage, TokenRequests: attempt.Exchanges, KeyRequests: attempt.KeyRequests,
	})
}
