/** What is asked for, in Kotlin's own way. */
@file:JvmName("Builders")

package io.fedrap.kotlin

import io.fedrap.core.Kinds
import io.fedrap.core.Wish

/** `wish(10) { exclude(basket).diversity(0.2) }` */
public fun wish(n: Int, fill: Wish.() -> Unit = {}): Wish = Wish(n).apply(fill)

/** `kinds("buy" to 5.0, "dislike" to -1.0, "hide" to null)`; null hides the item. */
public fun kinds(vararg counts: Pair<String, Double?>): Kinds =
    counts.fold(Kinds()) { made, (kind, much) ->
        if (much == null) made.hides(kind) else made.counts(kind, much)
    }
