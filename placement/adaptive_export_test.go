package placement

// UnwantedIn tells the T2 of an adaptive policy what gmt-reuse thinks of p, as
// an eviction from T1 does.
func UnwantedIn(t2 Evictor, p Page, unwanted bool) { t2.(*giving).mark(p, unwanted) }

// UsedIn tells it that p, which it holds, comes into T1.
func UsedIn(t2 Evictor, p Page) { t2.(*giving).used(p) }

// GiveEarly says whether unwanted pages and copies leave first.
func GiveEarly(t2 Evictor, early bool) { t2.(*giving).early = early }
