package secretstore

import (
	"context"
	"sync"
	"testing/synctest"

	"github.com/keywright/keywright/host"
)

// ParseSecrets is for the fuzz test.
var ParseSecrets = parseSecrets

// Refused has callers whose tokens were refused ask for others at the same time, one for each token, in their order.
// The last token is the one in use. It returns what they get.
func Refused(ctx context.Context, store host.Secrets, tokens ...string) []string {
	v := store.(*vault)
	v.hold(&session{token: tokens[len(tokens)-1]})
	got := make([]string, len(tokens))
	v.turn <- struct{}{} // nobody goes on before all have asked
	var all sync.WaitGroup
	for i, token := range tokens {
		all.Go(func() {
			if s, err := v.instead(ctx, &session{token: token}); err == nil {
				got[i] = s.token
			}
		})
		synctest.Wait()
	}
	<-v.turn
	all.Wait()
	return got
}
