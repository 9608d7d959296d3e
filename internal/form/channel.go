package form

const channels = "quorumlock:"

// OwnerChannel returns the channel for messages to the process whose tokens have an owner part. A process subscribes to
// it from its first wait or renewal on.
func OwnerChannel(owner string) string { return channels + owner }

// WaitChannel returns the channel that the processes which wait for a key subscribe to. Nobody publishes on it: servers
// count the subscribers (PUBSUB NUMSUB).
func WaitChannel(key string) string { return channels + "waits:" + key }
