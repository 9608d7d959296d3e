package sim

// Keyspace is what a simulated node knows, for the conformance test. Its clock stands still.
type Keyspace struct{ keyspace }

// Verbs are the commands.
const (
	AcquireCommand = acquire
	ReleaseCommand = release
	ExtendCommand  = extend
	RestoreCommand = restore
)

func NewKeyspace() *Keyspace { return &Keyspace{keyspace{map[string]entry{}}} }

// Do carries out a command at an instant.
func (k *Keyspace) Do(verb verb, key, token string, ttl, now int64) int {
	return int(k.do(command{verb: verb, key: key, token: token, ttl: ttl}, now))
}

// Left returns the token that is under key and its TTL.
func (k *Keyspace) Left(key string, now int64) (token string, ttl int64) {
	e, ok := k.get(key, now)
	if !ok {
		return "", 0
	}
	return e.token, e.expires - now
}
