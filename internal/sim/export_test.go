package sim

// Keyspace is what a simulated node knows, for the conformance test. Its clock stands still.
type Keyspace struct{ keyspace }

// Verbs are the commands.
const (
	AcquireCommand = acquire
	ReleaseCommand = release
	ExtendCommand  = extend
	RestoreCommand = restore
	ForceCommand   = force
	HealCommand    = heal
)

func NewKeyspace() *Keyspace { return &Keyspace{keyspace{keys: map[string]entry{}}} }

// Do carries out a command at an instant.
func (k *Keyspace) Do(verb verb, key, token string, ttl, now int64) int {
	return k.do(command{verb: verb, key: key, token: token, ttl: ttl}, now).code
}

// Look carries out a look.
func (k *Keyspace) Look(key string, now int64) (token string, ttl int64, ok bool) {
	r := k.do(command{verb: look, key: key}, now)
	return r.token, r.ttl, r.code == 1
}

// Stray leaves a key without a TTL, whatever was there.
func (k *Keyspace) Stray(key, token string) { k.set(key, &entry{token: token, forever: true}) }

// Flush deletes all keys.
func (k *Keyspace) Flush() { clear(k.keys) }

// Left returns the token that is under key and its TTL.
func (k *Keyspace) Left(key string, now int64) (token string, ttl int64) {
	e, ok := k.get(key, now)
	if !ok {
		return "", 0
	}
	if e.forever {
		return e.token, noTTL
	}
	return e.token, e.expires - now
}
