package console

import (
	"errors"
	"hash/maphash"
	"net/http"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// maxUsers is the maximum number of users of a connector whose conditions are remembered. Of more, the count is a lower bound.
const maxUsers = 10_000

// users counts the users of a connector by the condition of their grants, as their last request has met it. It holds no IDs, but hashes
// with a seed of this process. A store of state cannot count them: the names of its rows are hashes, too, and their values are sealed.
type users struct {
	seed       maphash.Seed
	conditions map[uint64]host.Condition
	// more reports whether there were more than maxUsers.
	more bool
}

// userCounts holds numbers of users.
type userCounts struct {
	// By has the numbers by condition.
	By map[string]int
	// More reports whether these are lower bounds.
	More bool
}

// conditionOf returns the condition of a user's grant, as a request has met it. It returns "" if the request says nothing about it.
func conditionOf(e *gateway.Event) host.Condition {
	if e.User == "" || e.Served == nil || !e.Served.Upstream().NeedsConsent() {
		return ""
	}
	if e.Err != nil {
		var grant *host.GrantError // declared here, so that a request that succeeds allocates nothing
		if errors.As(e.Err, &grant) {
			return grant.Condition
		}
	}
	switch {
	case e.NotConnected(), e.Use == gateway.UseDisconnect && e.Problem == "" && e.Status < http.StatusBadRequest:
		return host.ConditionNotConnected
	case e.Use == gateway.UseCallback && e.Problem == "", !e.Sent.IsZero():
		return host.ConditionConnected
	}
	return ""
}

// met records what a request has met.
func (u *users) met(e *gateway.Event) {
	condition := conditionOf(e)
	if condition == "" {
		return
	}
	if u.conditions == nil {
		u.seed, u.conditions = maphash.MakeSeed(), map[uint64]host.Condition{}
	}
	user := maphash.Comparable(u.seed, [2]string{e.Tenant, e.User})
	if _, there := u.conditions[user]; !there && len(u.conditions) >= maxUsers {
		u.more = true
		return
	}
	u.conditions[user] = condition
}

// counts returns the numbers of users.
func (u *users) counts() userCounts {
	c := userCounts{By: map[string]int{}, More: u.more}
	for _, condition := range u.conditions {
		c.By[string(condition)]++
	}
	return c
}

// users returns the numbers of users of a connector whose requests this process has seen.
func (r *Recorder) users(connector string) userCounts {
	rec, ok := r.connectors.Find(connector)
	if !ok {
		return userCounts{}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.users.counts()
}
