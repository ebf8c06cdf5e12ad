package plant

// line is a queue of arrival times in seconds. The zero value is empty.
type line struct {
	times []float64 // a ring
	head  int
	count int
}

func (l *line) length() int { return l.count }

// first returns the arrival time of the head. The line must not be empty.
func (l *line) first() float64 { return l.times[l.head] }

func (l *line) push(t float64) {
	l.grow()
	l.times[l.index(l.count)] = t
	l.count++
}

func (l *line) pushFront(t float64) {
	l.grow()
	l.head = l.index(len(l.times) - 1)
	l.times[l.head] = t
	l.count++
}

func (l *line) pop() float64 {
	t := l.times[l.head]
	l.head = l.index(1)
	l.count--
	return t
}

// index returns the position of the i-th element from the head.
func (l *line) index(i int) int {
	i += l.head
	if i >= len(l.times) {
		i -= len(l.times)
	}
	return i
}

func (l *line) grow() {
	if l.count < len(l.times) {
		return
	}
	bigger := make([]float64, max(16, 2*len(l.times)))
	for i := range l.count {
		bigger[i] = l.times[l.index(i)]
	}
	l.times, l.head = bigger, 0
}
