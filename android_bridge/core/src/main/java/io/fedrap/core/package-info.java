/**
 * The device in plain Java: everything but Android.
 *
 * <p>What may be null is marked {@code @Nullable} of JSpecify, for compilers and editors; nothing else is.
 * Nothing of it is needed at run time.
 */
package io.fedrap.core;
