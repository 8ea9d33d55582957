plugins {
    id("com.android.library") version "8.7.3" apply false
    id("com.android.application") version "8.7.3" apply false
}

allprojects {
    group = "io.fedrap"
    version = "0.1.0"
}
