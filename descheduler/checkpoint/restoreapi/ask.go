package restoreapi

import (
	"context"
	"fmt"
	"net"
	"time"
)

// askAgain is the time between two attempts to reach the agent, which may be starting.
const askAgain = 100 * time.Millisecond

// Ask asks the agent, and waits for its answer until ctx ends. While the agent cannot be reached, or ends before it has
// answered, it asks again. pause waits for a duration, or until ctx ends.
func (f Folder) Ask(ctx context.Context, r Request, pause func(context.Context, time.Duration)) (Answer, error) {
	r.Version = Version
	for {
		answer, err := f.askOnce(ctx, r)
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return Answer{}, fmt.Errorf("the node's agent has not answered at %s: %w", f.socket(), err)
		}
		pause(ctx, askAgain)
	}
}

func (f Folder) askOnce(ctx context.Context, r Request) (answer Answer, err error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", f.socket())
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = connection.Close() }()                         // the answer is complete, or its error is known
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })() // ends a read
	if err := write(connection, r); err != nil {
		return Answer{}, err
	}
	err = read(connection, &answer)
	return answer, err
}
