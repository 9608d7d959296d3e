package promredlock

import (
	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// roundOutcomes are the outcomes of each kind of round.
var roundOutcomes = map[event.Op][]string{
	event.OpAcquire: {outcome.Done, outcome.Taken, outcome.NoQuorum},
	event.OpExtend:  {outcome.Done, outcome.Gone, outcome.NoQuorum},
	event.OpUnlock:  {outcome.Done, outcome.NotHeld, outcome.NoQuorum},
}

// callOutcomes are the usual outcomes of calls that acquire: their series are made with the first call.
var callOutcomes = map[string][]string{
	outcome.Lock:    {outcome.Acquired, outcome.Canceled},
	outcome.TryLock: {outcome.Acquired, outcome.Taken, outcome.NoQuorum},
}
