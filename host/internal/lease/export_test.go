package lease

import "context"

// Flush tries once to write what the store did not take, and returns how many records are left.
func (n *Node) Flush(ctx context.Context) int {
	for _, u := range n.unwritten(nil) {
		n.settle(ctx, u)
	}
	return len(n.unwritten(nil))
}

// Unsettled returns the number of intents without an outcome.
func (n *Node) Unsettled() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unsettled
}
