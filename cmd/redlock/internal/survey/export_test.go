package survey

var (
	AskSubscribers  = askSubscribers
	ReadSubscribers = readSubscribers
)
