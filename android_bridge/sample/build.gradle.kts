plugins {
    id("com.android.application")
}

android {
    namespace = "io.fedrap.sample"
    compileSdk = 34
    defaultConfig {
        applicationId = "io.fedrap.sample"
        minSdk = 26
        targetSdk = 34
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    buildTypes {
        release {
            isMinifyEnabled = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"))
        }
    }
}

dependencies {
    implementation(project(":fedrap-android"))
}
