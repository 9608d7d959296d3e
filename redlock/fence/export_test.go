package fence

// The script of Run, and the hash that is written down for it.
var (
	CommandsSource = runCommands.source
	CommandsHash   = *runCommands.hash.Load()
)
