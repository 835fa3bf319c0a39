package lease

import "context"

// Flush tries once to write what the store did not take, and returns how many records are left.
func (n *Node) Flush(ctx context.Context) int {
	for _, u := range n.unwritten(nil) {
		n.settle(ctx, u)
	}
	return len(n.unwritten(nil))
}
