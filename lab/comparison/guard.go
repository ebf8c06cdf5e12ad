package comparison

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Panic is the error of a simulation that panicked, which is a fault of this program.
type Panic struct {
	// Value is the value of the panic.
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack string
}

func (p *Panic) Error() string {
	return fmt.Sprintf("it panicked, which is a fault of this program: %v", p.Value)
}

// guarded calls f and returns its result. If f, or a goroutine in which the scheduler runs plugins
// for it, panics, the error is a [*Panic].
//
// A goroutine of the scheduler reports its panic after the scheduler has stopped waiting for it. f
// then continues with a wrong result for a moment, until its context ends. Therefore fault, which
// returns the panic or nil, may find one that err does not have yet.
func guarded[T any](ctx context.Context, f func(context.Context) (T, error)) (result T, fault func() error, err error) {
	report.Do(reportPanics)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &guard{cancel: cancel}
	fault = g.fault
	defer func() {
		if value := recover(); value != nil {
			g.panicked(value)
		}
		if p := fault(); p != nil {
			err = p
		}
	}()
	result, err = f(context.WithValue(ctx, guardKey{}, g))
	return result, fault, err
}

// guard keeps the first panic of a call.
type guard struct {
	cancel func()
	mu     sync.Mutex
	first  *Panic
}

type guardKey struct{}

// panicked keeps the panic, and ends the call. It must be called by the goroutine that panics.
func (g *guard) panicked(value any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		g.first = &Panic{Value: value, Stack: string(debug.Stack())}
	}
	g.cancel()
}

// fault returns the panic, or nil.
func (g *guard) fault() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		return nil
	}
	return g.first
}

// report makes the goroutines of Kubernetes' libraries report a panic to the guard of their
// context. Without one they panic as before.
var report sync.Once

func reportPanics() {
	handlers := utilruntime.PanicHandlers
	utilruntime.PanicHandlers = []func(context.Context, any){func(ctx context.Context, value any) {
		if g, is := ctx.Value(guardKey{}).(*guard); is {
			g.panicked(value)
			return
		}
		for _, handle := range handlers {
			handle(ctx, value)
		}
		panic(value)
	}}
	utilruntime.ReallyCrash = false // the handler above decides
}
