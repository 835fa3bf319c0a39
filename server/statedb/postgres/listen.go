package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

// channel is the channel on which the ids of changed rows are sent.
const channel = "keywright_state"

// listener has the connection of a process that waits for changes, and connects again. It sends
// LISTEN and [migrate.Hold] alone.
type listener struct {
	dial func(context.Context) (*pgx.ConnConfig, error)
	log  *slog.Logger

	// first is the connection until start listens on it, or nil.
	first  *pgx.Conn
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	mutex     sync.Mutex
	listening bool
	turned    chan struct{}
}

func newListener(dial func(context.Context) (*pgx.ConnConfig, error), log *slog.Logger) *listener {
	l := &listener{dial: dial, log: log, turned: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// state reports whether changes arrive, and returns a channel that is closed when this changes.
func (l *listener) state() (listening bool, turned <-chan struct{}) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.listening, l.turned
}

func (l *listener) turn(listening bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.listening != listening {
		l.listening = listening
		close(l.turned)
		l.turned = make(chan struct{})
	}
}

// start begins to listen, and calls wake for each change. The log has one line when that fails, until it listens again.
func (l *listener) start(wake func(state.ID)) {
	const firstPause, lastPause = 50 * time.Millisecond, 10 * time.Second // between two attempts to connect
	l.done.Go(func() {
		pause, logged := firstPause, false
		for l.ctx.Err() == nil {
			err := l.listen(wake)
			if listened, _ := l.state(); listened {
				pause, logged = firstPause, false
				l.turn(false)
			}
			if l.ctx.Err() != nil {
				return
			}
			if !logged {
				detail, kind := explain(err)
				l.log.Warn("no news of changes from the state's database: those who wait look now and then", "error", kind, "detail", detail)
				logged = true
			}
			select {
			case <-time.After(pause/2 + rand.N(pause)):
			case <-l.ctx.Done():
			}
			pause = min(2*pause, lastPause)
		}
	})
}

func (l *listener) stop() {
	l.cancel()
	l.done.Wait()
	if l.first != nil {
		closeConnection(l.first)
	}
}

// closeConnection closes a connection within a second.
func closeConnection(connection *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = connection.Close(ctx)
}

// listen listens until the connection breaks.
func (l *listener) listen(wake func(state.ID)) error {
	connection := l.first
	if l.first = nil; connection == nil {
		var err error
		if connection, err = l.connect(l.ctx); err != nil {
			return err
		}
	}
	defer closeConnection(connection)
	l.turn(true)
	for {
		news, err := connection.WaitForNotification(l.ctx)
		if err != nil {
			return err
		}
		var id state.ID
		if n, err := hex.Decode(id[:], []byte(news.Payload[:min(len(news.Payload), 2*len(id))])); err == nil && n == len(id) {
			wake(id)
		}
	}
}

func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, sqlstate.Usual.Limit)
	defer cancel()
	config, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := connection.Exec(ctx, `LISTEN `+channel+`; `+migrate.Hold(sqlstate.Schema)); err != nil {
		return nil, errors.Join(err, connection.Close(ctx))
	}
	return connection, nil
}
