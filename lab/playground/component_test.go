package playground

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAComponentThatDoesNotEndIsGivenUp(t *testing.T) {
	let := make(chan struct{})
	c := startComponent("kube-lazy", kubernetesLog, func(context.Context) error {
		<-let
		return nil
	})
	err := c.stopWithin(time.Millisecond)
	if want := "stop kube-lazy: still running after 1ms"; err == nil || err.Error() != want {
		t.Errorf("stopping says %v, want %s", err, want)
	}
	var at *componentError
	if !errors.As(err, &at) || at.log != kubernetesLog {
		t.Errorf("%v does not lead to the log", err)
	}
	close(let)
	if err := c.stop(); err != nil {
		t.Errorf("once it can end: %v", err)
	}
	if err := c.died(); err != nil {
		t.Errorf("it was stopped, and is said to have died: %v", err)
	}
}
