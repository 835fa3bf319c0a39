package lease

import (
	"context"
	"encoding/json"
	"time"
)

// Refusal describes an answer without a token, for all nodes.
type Refusal struct {
	// Value describes the refusal.
	Value []byte
	// Count is the number of refusals since the last [Node.Accept].
	Count int
	// Wait is the time until the endpoint may be asked again. It is 0 if the time is over.
	Wait time.Duration
}

// refusalMemory is the time after the end of a wait for which a refusal still counts.
const refusalMemory = time.Hour

// refusalRecord is the value of the row of a refusal.
type refusalRecord struct {
	Value []byte
	Count int
	Wait  time.Duration
}

// Refusal returns what was refused last, or the zero Refusal. The caller asks the endpoint if Wait is 0. A row that does not
// open is no refusal.
func (n *Node) Refusal(ctx context.Context, key Key) (Refusal, error) {
	start := n.c.Now()
	r, _, err := n.refusal(ctx, key)
	r.Wait = max(0, r.Wait-n.c.Now().Sub(start))
	return r, err
}

// refusal returns what was refused last, and the generation of its row.
func (n *Node) refusal(ctx context.Context, key Key) (Refusal, int64, error) {
	id := n.id(useRefusal, key)
	row, err := n.get(ctx, id)
	if err != nil {
		return Refusal{}, row.Generation, err
	}
	var rec refusalRecord
	if text, err := n.open(id, row); err == nil && json.Unmarshal(text, &rec) == nil { // an empty row does not open
		rec.Wait = max(0, rec.Wait-row.Age)
		return Refusal(rec), row.Generation, nil
	}
	return Refusal{}, row.Generation, nil
}

// Refuse writes a refusal for all nodes. wait returns how long none of them asks again, after a number of refusals, of which
// this is the last. Of refusals at the same time one is written. Refuse returns the one that holds now.
func (n *Node) Refuse(ctx context.Context, key Key, value []byte, wait func(count int) time.Duration) (Refusal, error) {
	last, generation, err := n.refusal(ctx, key)
	if err != nil || last.Wait > 0 {
		return last, err
	}
	next := Refusal{Value: value, Count: last.Count + 1}
	next.Wait = wait(next.Count)
	lease, ok, err := n.acquire(ctx, n.id(useRefusal, key), generation)
	if err != nil || !ok {
		return next, err
	}
	text, err := json.Marshal(refusalRecord(next))
	if err == nil {
		_, err = n.put(ctx, lease, text, next.Wait+refusalMemory, true)
	}
	return next, err
}

// Accept removes a refusal, after the endpoint has answered with a token. If [Node.Refusal] has returned the zero Refusal, there
// is nothing to remove.
func (n *Node) Accept(ctx context.Context, key Key) error {
	last, generation, err := n.refusal(ctx, key)
	if err == nil && last.Count > 0 {
		_, err = n.remove(ctx, n.id(useRefusal, key), generation)
	}
	return err
}
