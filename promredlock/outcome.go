package promredlock

import (
	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/redlock"
)

// roundOutcomes are the outcomes of each kind of round.
var roundOutcomes = map[redlock.Op][]string{
	redlock.OpAcquire: {outcome.Done, outcome.Taken, outcome.NoQuorum},
	redlock.OpExtend:  {outcome.Done, outcome.Lost, outcome.NoQuorum},
	redlock.OpUnlock:  {outcome.Done, outcome.NotHeld, outcome.NoQuorum},
}

// callOutcomes are the usual outcomes of calls that acquire: their series are made with the first call.
var callOutcomes = map[string][]string{
	outcome.Lock:    {outcome.Acquired, outcome.Canceled},
	outcome.TryLock: {outcome.Acquired, outcome.Taken, outcome.NoQuorum},
}
