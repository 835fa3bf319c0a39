package audit

// Flush returns once all records that were added before have been written, or could not be.
func (l *Log) Flush() {
	written := make(chan struct{})
	select {
	case l.flush <- written:
		<-written
	case <-l.done:
	}
}
