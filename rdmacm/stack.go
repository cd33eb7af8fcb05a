package rdmacm

// growStack has the calling goroutine's stack grow to what making and moving a queue pair
// takes. It is for a goroutine that has just begun: to grow step by step in the depth of
// that costs more, because each frame is looked up each time.
//
//go:noinline
func growStack() byte {
	var room [5 << 10]byte
	return room[len(room)-int(zero)-1]
}

// zero keeps the compiler from doing without the room.
var zero uint8
